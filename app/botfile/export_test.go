package botfile

import (
	"net/http"
	"net/netip"
	"reflect"
)

// Content has the keys of a file.
var Content = reflect.TypeFor[content]()

// WithAccount makes requests with tokens of that address.
func WithAccount(tokenURL string, private []netip.Prefix) http.RoundTripper {
	c := client{TokenURL: tokenURL, ID: "x", Secret: "y"}
	return c.transport(private, http.DefaultTransport)
}
