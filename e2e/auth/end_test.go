package auth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestEndWhileKeysHang: who waits for a judgement that cannot be had is told to come back
// when the bot is told to end.
func TestEndWhileKeysHang(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}, 1), make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-ended
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(ended) })
	w := newWorld(t, "BOT_OPENID_METADATA_URL="+hanging.URL)
	req, got := w.request(w.good()), make(chan *http.Response, 1)
	go func() {
		defer close(got)
		resp, err := w.client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		got <- resp
	}()
	<-asked
	began := time.Now()
	w.logIsClean()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %s", took)
	}
	if resp := <-got; resp != nil && (resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "") {
		t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}
