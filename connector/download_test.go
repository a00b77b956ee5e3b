package connector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

func picture(address string) activity.Attachment {
	return activity.Attachment{ContentType: "image/png", ContentURL: address, Name: "cat.png"}
}

func shared(address string) activity.Attachment {
	return activity.Attachment{
		ContentType: "application/vnd.microsoft.teams.file.download.info", ContentURL: "https://contoso.sharepoint.com/personal/doc.txt",
		Content: jsontext.Value(fmt.Sprintf(`{"downloadUrl":%q,"uniqueId":"1","fileType":"txt"}`, address)),
	}
}

// web stands in for all hosts. Each address answers with its file, or leads elsewhere
// ("-> address"); what was asked is kept, with a mark where the token went along.
type web struct {
	pages map[string]string
	asked []string
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	mark := ""
	switch r.Header.Get("Authorization") {
	case "Bearer secret-token":
		mark = " with the token"
	case "":
	default:
		mark = " with " + r.Header.Get("Authorization")
	}
	w.asked = append(w.asked, r.URL.String()+mark)
	rec := httptest.NewRecorder()
	page, ok := w.pages[r.URL.String()]
	switch to, leads := strings.CutPrefix(page, "-> "); {
	case !ok:
		rec.WriteHeader(http.StatusNotFound)
	case leads:
		rec.Header().Set("Location", to)
		rec.WriteHeader(http.StatusFound)
	default:
		rec.Header().Set("Content-Type", "image/png; charset=x")
		_, _ = rec.WriteString(page)
	}
	return rec.Result(), nil
}

const (
	inline = "https://smba.trafficmanager.net/amer/v3/attachments/1/views/original"
	onFile = "https://contoso.sharepoint.com/_layouts/download.aspx?UniqueId=1&tempauth=key"
)

func TestDownload(t *testing.T) {
	t.Parallel()
	const token = " with the token"
	tests := []struct {
		name  string
		a     activity.Attachment
		pages map[string]string
		asked []string
		fails error // nil: the content is "bytes"
	}{
		{"picture on the connector", picture(inline), map[string]string{inline: "bytes"}, []string{inline + token}, nil},
		{"file that was shared", shared(onFile), map[string]string{onFile: "bytes"}, []string{onFile}, nil},
		{"file on svc.ms", shared("https://eu1.svc.ms/x"), map[string]string{"https://eu1.svc.ms/x": "bytes"}, []string{"https://eu1.svc.ms/x"}, nil},
		{"picture on a host of files", picture(onFile), map[string]string{onFile: "bytes"}, []string{onFile}, nil},
		{"shared, on the connector", shared(inline), map[string]string{inline: "bytes"}, []string{inline}, nil},
		{"picture on a listed host", picture("https://listed.example/1"), map[string]string{"https://listed.example/1": "bytes"}, []string{"https://listed.example/1" + token}, nil},
		{"shared on a listed host", shared("http://127.0.0.1:7001/1"), map[string]string{"http://127.0.0.1:7001/1": "bytes"}, []string{"http://127.0.0.1:7001/1"}, nil},

		{"redirect", picture(inline), map[string]string{inline: "-> https://smba.trafficmanager.net/emea/1"}, []string{inline + token}, &connector.Error{Status: 302}},
		{"missing", picture(inline), nil, []string{inline + token}, &connector.Error{Status: 404}},

		{"elsewhere", picture("https://evil.example/1.png"), nil, nil, connector.ErrHostNotAllowed},
		{"file elsewhere", shared("https://sharepoint.com.evil.example/1"), nil, nil, connector.ErrHostNotAllowed},
		{"file on the machine", shared("http://localhost/1"), nil, nil, connector.ErrHostNotAllowed},
		{"file in the cloud's metadata", shared("http://169.254.169.254/latest"), nil, nil, connector.ErrHostNotAllowed},
		{"plain http", picture("http://smba.trafficmanager.net/1"), nil, nil, connector.ErrHostNotAllowed},
		{"file by plain http", shared("http://contoso.sharepoint.com/1"), nil, nil, connector.ErrHostNotAllowed},
		{"odd port", shared("https://contoso.sharepoint.com:8443/1"), nil, nil, connector.ErrHostNotAllowed},
		{"user in it", picture("https://smba.trafficmanager.net@evil.example/1"), nil, nil, connector.ErrHostNotAllowed},
		{"of another cloud", shared("https://contoso.sharepoint.us/1"), nil, nil, connector.ErrHostNotAllowed},
		{"data", picture("data:image/png;base64,AAAA"), nil, nil, connector.ErrHostNotAllowed},
		{"a file of the machine", picture("file:///etc/passwd"), nil, nil, connector.ErrHostNotAllowed},
		{"nothing", picture(""), nil, nil, connector.ErrHostNotAllowed},
		{"no downloadUrl", activity.Attachment{ContentType: "application/vnd.microsoft.teams.file.download.info", Content: jsontext.Value(`[]`), ContentURL: inline}, nil, nil, errAny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := &web{pages: tt.pages}
			c := newClient(t, withApp(w, "listed.example", "127.0.0.1:7001"), fixedToken("secret-token"))
			content, contentType, err := c.Download(t.Context(), tt.a, 0)
			checkFile(t, content, contentType, err, tt.fails)
			if diff := cmp.Diff(tt.asked, w.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

var errAny = errors.New("any")

func checkFile(t *testing.T, content []byte, contentType string, err, fails error) {
	t.Helper()
	var want, got *connector.Error
	switch {
	case fails == nil:
		if err != nil || string(content) != "bytes" || contentType != "image/png" {
			t.Errorf("file %q %q, err %v", content, contentType, err)
		}
		return
	case err == nil || len(content) != 0:
		t.Errorf("file %q, err %v, want %v", content, err, fails)
		return
	case errors.Is(fails, errAny):
	case errors.As(fails, &want):
		if !errors.As(err, &got) || got.Status != want.Status {
			t.Errorf("err = %v, want status %d", err, want.Status)
		}
	case !errors.Is(err, fails):
		t.Errorf("err = %v, want %v", err, fails)
	}
	for _, secret := range []string{"tempauth", "secret-token", "_layouts"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q is in %v", secret, err)
		}
	}
}

// TestDownloadEnds at the cap and with the time, whatever the server does.
func TestDownloadEnds(t *testing.T) {
	t.Parallel()
	flood := func(w http.ResponseWriter, n int) {
		for range n {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return // the client hung up, as it should
			}
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		max    int64
		fails  error
		calls  int
	}{
		{"without a cap", func(w http.ResponseWriter, _ *http.Request) { flood(w, 1) }, math.MaxInt64, nil, 1},
		{"not there yet", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }, 0, &connector.Error{Status: 202}, 1},
		{"at the cap", func(w http.ResponseWriter, _ *http.Request) { flood(w, 4) }, 4 << 10, nil, 1},
		{"a byte more", func(w http.ResponseWriter, _ *http.Request) { flood(w, 4) }, 4<<10 - 1, &connector.Error{Status: 413}, 1},
		{"without a length", func(w http.ResponseWriter, _ *http.Request) { flood(w, 1<<15) }, 1 << 20, &connector.Error{Status: 413}, 1},
		{"beyond the usual cap", func(w http.ResponseWriter, _ *http.Request) { flood(w, 20<<10+1) }, 0, &connector.Error{Status: 413}, 1},
		{"5 GB announced", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "5368709120") }, 0, &connector.Error{Status: 413}, 1},
		{"less than announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "2048")
			flood(w, 1)
		}, 0, errAny, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRest(t, tt.answer)
			content, _, err := r.Download(t.Context(), picture(r.URL+"/1"), tt.max)
			var want, got *connector.Error
			if (err == nil) != (tt.fails == nil) || errors.As(tt.fails, &want) && (!errors.As(err, &got) || got.Status != want.Status) {
				t.Errorf("%d bytes, err %v, want %v", len(content), err, tt.fails)
			}
			if tt.fails == nil && len(content) == 0 {
				t.Error("an empty file")
			}
			if len(r.calls) != tt.calls {
				t.Errorf("%d calls, want %d", len(r.calls), tt.calls)
			}
		})
	}
}

func TestDownloadIsTriedAgain(t *testing.T) {
	t.Parallel()
	type step = func(*http.Request) (*http.Response, error)
	tests := []struct {
		name  string
		steps []step
		calls int
		took  time.Duration // at most
		fails bool
	}{
		{"429", []step{says(429, "Retry-After", "7"), says(200)}, 2, 7 * time.Second, false},
		{"503", []step{says(503), says(200)}, 2, time.Second, false},
		{"401", []step{says(401), says(200)}, 2, 0, false},
		{"hangs", []step{hangs, says(200)}, 2, 11 * time.Second, false},
		{"hangs on", []step{hangs, hangs}, 2, 21 * time.Second, true},
		{"trickles", []step{trickles(30, 1), says(200)}, 1, 11 * time.Second, true},
		{"is slow", []step{trickles(30, 100<<10)}, 1, 30 * time.Second, false},
		{"403", []step{says(403), says(200)}, 1, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := &script{steps: tt.steps, start: time.Now()}
				_, _, err := scripted(t, script, counter()).Download(t.Context(), picture(inline), 0)
				if (err != nil) != tt.fails || len(script.at) != tt.calls || time.Since(script.start) > tt.took {
					t.Errorf("err %v after %d calls and %v", err, len(script.at), time.Since(script.start))
				}
				if tt.name == "401" && script.auth[1] != "Bearer token1" {
					t.Errorf("tokens %q", script.auth)
				}
			})
		})
	}
}

// trickles answers with so many bytes a second.
func trickles(seconds, bytes int) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		from, to := io.Pipe()
		go func() {
			for range seconds {
				select {
				case <-time.After(time.Second):
				case <-req.Context().Done():
					_ = to.CloseWithError(req.Context().Err())
					return
				}
				if _, err := to.Write(make([]byte, bytes)); err != nil {
					return
				}
			}
			_ = to.Close()
		}()
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: from, ContentLength: -1}, nil
	}
}

// TestDownloadEndsWithItsContext, also in the middle of a file.
func TestDownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRest(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = w.Write([]byte("a part"))
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-q.Context().Done()
	})
	if _, _, err := r.Download(ctx, picture(r.URL), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// TestDownloadLooksAtTheAddress that a name of a file host leads to.
func TestDownloadLooksAtTheAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"10.1.2.3", "169.254.169.254", "[fd00::1]"} {
		c := newClient(t, withApp(nil), fixedToken("t"))
		c.SetHosts(nil, []string{strings.Trim(address, "[]")}) // stands for a name that resolves to it
		if _, _, err := c.Download(t.Context(), shared("https://"+address+"/1"), 0); !errors.Is(err, connector.ErrHostNotAllowed) || !strings.Contains(err.Error(), "resolves to") {
			t.Errorf("%s: err = %v, want ErrHostNotAllowed when it is dialled", address, err)
		}
	}
}

// TestFileHostsAreNoServiceHosts: they are neither sent to nor accepted as a serviceUrl.
func TestFileHostsAreNoServiceHosts(t *testing.T) {
	t.Parallel()
	c := newClient(t, withApp(unreachable(t)), fixedToken("t"))
	const on = "https://contoso.sharepoint.com/"
	if _, err := c.Send(t.Context(), reference(on), message()); !errors.Is(err, connector.ErrHostNotAllowed) {
		t.Errorf("send: err = %v", err)
	}
	if err := c.Allowed(on); !errors.Is(err, connector.ErrHostNotAllowed) {
		t.Errorf("allowed: err = %v", err)
	}
}

func TestLocalModeDownloads(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, "bytes"))
	c := newClient(t, connector.Config{}, nil)
	if content, _, err := c.Download(t.Context(), picture(r.URL+"/x"), 0); err != nil || string(content) != "bytes" {
		t.Errorf("%q, %v", content, err)
	}
	r.want(t, sent{"GET", "/x", "", ""})
	if _, _, err := c.Download(t.Context(), shared(onFile), 0); !errors.Is(err, connector.ErrHostNotAllowed) {
		t.Errorf("of the world: err = %v", err)
	}
}
