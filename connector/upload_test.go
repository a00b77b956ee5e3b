package connector_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/connector"
)

const session = "https://contoso-my.sharepoint.com/up/1?tempauth=key"

// sessionOf answers requests to an upload session, one after another: status and body.
type sessionOf struct {
	answers []string
	asked   []string
	at      []time.Time
}

func (s *sessionOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return nil, errors.New("the token went to the session")
	}
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %d", r.Method, r.URL, r.Header.Get("Content-Range"), r.ContentLength)))
	s.at = append(s.at, time.Now())
	if len(s.answers) == 0 {
		return nil, errors.New("nothing more was expected")
	}
	status, body, _ := strings.Cut(s.answers[0], " ")
	s.answers = s.answers[1:]
	w := httptest.NewRecorder()
	if status == "307" {
		w.Header().Set("Location", "https://evil.example")
	}
	var code int
	_, _ = fmt.Sscan(status, &code)
	w.WriteHeader(code)
	_, _ = w.WriteString(body)
	return w.Result(), nil
}

func TestUploadPart(t *testing.T) {
	t.Parallel()
	const (
		first = "PUT " + session + " bytes 0-3/10 4"
		last  = "PUT " + session + " bytes 4-9/10 6"
		get   = "GET " + session + "  0"
	)
	tests := []struct {
		name    string
		from    int64
		answers []string
		asked   []string
		next    int64
		status  int // of the error; 0: none, -1: another
	}{
		{"a part", 0, []string{`202 {"nextExpectedRanges":["4-"]}`}, []string{first}, 4, 0},
		{"a part of which half was taken", 0, []string{`202 {"nextExpectedRanges":["2-9","x"]}`}, []string{first}, 2, 0},
		{"a part, and nothing is said", 0, []string{`202`}, []string{first}, 4, 0},
		{"a part, and it is said to be all", 0, []string{`201 {"id":"1"}`}, []string{first}, 4, 0},
		{"the last part", 4, []string{`201 {"id":"1"}`}, []string{last}, 10, 0},
		{"the last part of a file that is replaced", 4, []string{`200 {"id":"1"}`}, []string{last}, 10, 0},
		{"the last part, and nothing is wanted", 4, []string{`202 {"nextExpectedRanges":[]}`}, []string{last}, 10, 0},
		{"the last part, and nobody says that it is there", 4, []string{`202`, `202`}, []string{last, last}, 0, -1},
		{"a part that is there", 0, []string{`416`, `200 {"nextExpectedRanges":["4-9"]}`}, []string{first, get}, 4, 0},
		{"all is there", 4, []string{`416`, `200 {"nextExpectedRanges":[]}`}, []string{last, get}, 10, 0},
		{"a part that is there, and the session says nothing", 0, []string{`416`, `200 {}`, `416`, `200 {}`}, []string{first, get, first, get}, 0, -1},
		{"a part that is there, in a session that is over", 0, []string{`416`, `404`}, []string{first, get}, 0, 404},
		{"a range beyond the file", 0, []string{`202 {"nextExpectedRanges":["10-"]}`, `202 {"nextExpectedRanges":["10-"]}`}, []string{first, first}, 0, -1},
		{"a range that is none", 0, []string{`202 {"nextExpectedRanges":["-1-4"]}`, `202 {"nextExpectedRanges":["4-"]}`}, []string{first, first}, 4, 0},
		{"a session that is over", 0, []string{`404`}, []string{first}, 0, 404},
		{"not allowed", 0, []string{`401`}, []string{first}, 0, 401},
		{"a redirect", 0, []string{`307`}, []string{first}, 0, 307},
		{"a busy session", 0, []string{`503`, `429`, `202 {"nextExpectedRanges":["4-"]}`}, []string{first, first, first}, 4, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &sessionOf{answers: tt.answers}
				c := newClient(t, withApp(s), fixedToken("secret-token"))
				part := "0123"
				if tt.from > 0 {
					part = "456789"
				}
				next, err := c.UploadPart(t.Context(), session, []byte(part), tt.from, 10)
				refused, _ := errors.AsType[*connector.Error](err)
				if next != tt.next && err == nil || (err == nil) != (tt.status == 0) || tt.status > 0 && (refused == nil || refused.Status != tt.status) {
					t.Errorf("next %d, err %v", next, err)
				}
				if err != nil && strings.Contains(err.Error(), "tempauth") {
					t.Errorf("the address is in the error: %v", err)
				}
				if diff := cmp.Diff(tt.asked, s.asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestUploadsGoToFileHostsOnly(t *testing.T) {
	t.Parallel()
	for address, allowed := range map[string]bool{
		session:                                           true,
		"https://eu1.svc.ms/up":                           true,
		"https://x.1drv.com/up":                           true,
		"https://listed.example/up":                       true,
		"http://127.0.0.1:7001/up":                        true,
		"https://smba.trafficmanager.net/1":               false, // it has no files of people
		"https://contoso.sharepoint.us/up":                false,
		"https://contoso.sharepoint.com.evil.example/up":  false,
		"https://evilsharepoint.com/up":                   false,
		"https://contoso.sharepoint.com:8443/up":          false,
		"https://contoso.sharepoint.com@evil.example/up":  false,
		"https://evil.example#.sharepoint.com/up":         false,
		"http://contoso.sharepoint.com/up":                false,
		"http://listed.example/up":                        false,
		"https://169.254.169.254/up":                      false,
		"https://localhost/up":                            false,
		"file:///etc/passwd":                              false,
		"":                                                false,
		"https://contoso.sharepoint.com\r\nX: y@evil/up":  false,
		"https://contoso.sharepoint.com%2eevil.example/x": false,
	} {
		s := &sessionOf{answers: []string{"201"}}
		c := newClient(t, withApp(s, "listed.example", "127.0.0.1:7001"), fixedToken("t"))
		_, err := c.UploadPart(t.Context(), address, []byte("x"), 0, 1)
		if (err == nil) != allowed || !allowed && (!errors.Is(err, connector.ErrHostNotAllowed) || len(s.asked) > 0) {
			t.Errorf("%s: asked %q, err %v", address, s.asked, err)
		}
	}
}

func TestUploadsOfACallingBotGoToListedHosts(t *testing.T) {
	t.Parallel()
	s := &sessionOf{answers: []string{"201"}}
	c := newClient(t, withApp(s, "listed.example"), fixedToken("t"))
	ctx := connector.ForCaller(t.Context(), "00000000-0000-4000-8000-000000000009")
	if _, err := c.UploadPart(ctx, session, []byte("x"), 0, 1); !errors.Is(err, connector.ErrHostNotAllowed) {
		t.Errorf("err %v", err)
	}
	if _, err := c.UploadPart(ctx, "https://listed.example/up", []byte("x"), 0, 1); err != nil {
		t.Error(err)
	}
}

func TestAPartThatCannotBe(t *testing.T) {
	t.Parallel()
	c := newClient(t, withApp(unreachable(t)), fixedToken("t"))
	for _, tt := range []struct {
		part       int
		from, size int64
	}{{0, 0, 0}, {0, 0, 5}, {2, 4, 5}, {1, -1, 5}, {60<<20 + 1, 0, 60<<20 + 1}} {
		if _, err := c.UploadPart(t.Context(), session, make([]byte, tt.part), tt.from, tt.size); !errors.Is(err, connector.ErrBadCall) {
			t.Errorf("%+v: err %v", tt, err)
		}
	}
}

// TestAnExpiredLinkIsNotTriedAgain: a new token would not help, because none goes there.
func TestAnExpiredLinkIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"401", "403", "404", "410"} {
		s := &sessionOf{answers: []string{status}}
		_, _, err := newClient(t, withApp(s), fixedToken("t")).Download(t.Context(), shared(onFile), 0)
		if refused, _ := errors.AsType[*connector.Error](err); refused == nil || len(s.asked) != 1 {
			t.Errorf("%s: asked %q, err %v", status, s.asked, err)
		}
	}
}
