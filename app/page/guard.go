package page

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/internal/loopback"
)

// policy lets the page run nothing that was not shipped with it, and show no picture from elsewhere.
// The last three names are those that the library for cards makes when it is loaded.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types planbot " +
	"adaptivecards#markdownPassthroughPolicy adaptivecards#restoreContentsPolicy adaptivecards#deprecatedExportedFunctionPolicy"

const maxBody = 4 << 20 // limits what a browser or the bot may send to the page

// guard lets only pages of this origin, and programs of this machine, reach h. It looks at every
// request before it is routed. at is where the page is served.
func guard(at *net.TCPAddr, h http.Handler) http.Handler {
	hosts := []string{}
	for _, name := range []string{at.IP.String(), "127.0.0.1", "::1", "localhost"} {
		host := net.JoinHostPort(name, strconv.Itoa(at.Port))
		hosts = append(hosts, host)
		if at.Port == 80 {
			hosts = append(hosts, strings.TrimSuffix(host, ":80"))
		}
	}
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := w.Header().Set
		set("Content-Security-Policy", policy)
		set("Cross-Origin-Opener-Policy", "same-origin")
		set("Cross-Origin-Resource-Policy", "same-origin")
		set("X-Content-Type-Options", "nosniff")
		set("Referrer-Policy", "no-referrer")
		set("Cache-Control", "no-store")
		why := ""
		switch {
		case !slices.Contains(hosts, r.Host): // a name that was made to lead here
			why = "The page is at http://" + hosts[0] + "/ only."
		case loopback.Proxied(r.Header):
			why = "The page is not for proxies and tunnels."
		case crossOrigin.Check(r) != nil, !sameSite(r):
			why = "The page is not for other sites."
		}
		if why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	})
}

// sameSite reports whether a request that only reads comes from the page itself, from the person who
// types its address, or from no browser.
func sameSite(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); r.Method == http.MethodGet && origin != "" && origin != "http://"+r.Host {
		return false // the own forms have the origin null, since the page sends no referrer
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet
}

// isJSON reports whether the body says that it is JSON, which no form of another site can.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
