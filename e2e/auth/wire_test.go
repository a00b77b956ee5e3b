package auth_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// line is a connection that is written to by hand.
type line struct {
	net.Conn
	read *bufio.Reader
}

// dial opens a connection that ends with the test, or after the time.
func (w *world) dial(atMost time.Duration) *line {
	w.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", w.addr)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(atMost))
	return &line{conn, bufio.NewReader(conn)}
}

// status is that of the next answer; 0: the connection ended without one.
func (l *line) status() int {
	resp, err := http.ReadResponse(l.read, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// wire is a good message in its parts, to be put together otherwise.
func (w *world) wire() (head, authorization, body string) {
	w.Helper()
	a := w.good()
	raw, err := json.Marshal(a.activity)
	if err != nil {
		w.Fatal(err)
	}
	value := "Bearer " + a.token.String()
	w.sends([]string{value})
	return "POST /api/messages HTTP/1.1\r\nHost: " + w.addr + "\r\nContent-Type: application/json\r\n", "Authorization: " + value + "\r\n", string(raw)
}

func chunk(body string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(body), body) }

// TestOddHTTP is answered by its rules, or not at all, and nobody is called for it.
func TestOddHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	head, auth, body := w.wire()
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	none := []int{0}
	for name, c := range map[string]struct {
		text string
		want []int
	}{
		"nothing that is HTTP":          {"hello\r\n\r\n", []int{400}},
		"TLS":                           {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 200) + "\r\n\r\n", []int{400}},
		"HTTP/0.9":                      {"POST /api/messages\r\n\r\n", []int{400}},
		"HTTP/2":                        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400, 405, 505}},
		"HTTP/3.0":                      {"POST /api/messages HTTP/3.0\r\nHost: x\r\n\r\n", []int{505}},
		"HTTP/1.2.3":                    {"POST /api/messages HTTP/1.2.3\r\nHost: x\r\n\r\n", []int{400}},
		"no host":                       {"POST /api/messages HTTP/1.1\r\n" + auth + length + "\r\n" + body, []int{400}},
		"two hosts":                     {head + "Host: evil.example\r\n" + auth + length + "\r\n" + body, []int{400}},
		"host of odd signs":             {"POST /api/messages HTTP/1.1\r\nHost: a b\r\n\r\n", []int{400}},
		"header without a colon":        {head + "X\r\n" + auth + length + "\r\n" + body, []int{400}},
		"header with a space":           {head + "X : y\r\n" + auth + length + "\r\n" + body, []int{400}},
		"header with NUL":               {head + "X: \x00\r\n" + auth + length + "\r\n" + body, []int{400}},
		"header with a bare CR":         {head + "X: a\rb\r\n" + auth + length + "\r\n" + body, []int{400}},
		"authorization over two lines":  {head + strings.Replace(auth, "Bearer ", "Bearer\r\n ", 1) + length + "\r\n" + body, []int{200, 400, 401}},
		"headers of 64 KB":              {head + "X: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", []int{431, 0}},
		"a thousand headers":            {head + strings.Repeat("X: "+strings.Repeat("a", 60)+"\r\n", 1000) + "\r\n", []int{431, 0}},
		"a long path":                   {"POST /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", []int{431, 0}},
		"two lengths":                   {head + auth + length + "Content-Length: 1\r\n\r\n" + body, []int{400}},
		"a negative length":             {head + auth + "Content-Length: -1\r\n\r\n" + body, []int{400}},
		"a length with a sign":          {head + auth + "Content-Length: +5\r\n\r\n" + body, []int{400}},
		"a length in hex":               {head + auth + "Content-Length: 0x10\r\n\r\n" + body, []int{400}},
		"a length of 20 digits":         {head + auth + "Content-Length: 99999999999999999999\r\n\r\n", []int{400}},
		"a length of a gigabyte":        {head + auth + "Content-Length: 1073741824\r\n\r\n", []int{413}},
		"no length":                     {head + auth + "\r\n", []int{400}},
		"a coding that nobody knows":    {head + auth + "Transfer-Encoding: gzip, chunked\r\n\r\n", []int{501}},
		"two codings":                   {head + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk(body) + "0\r\n\r\n", []int{400, 501}},
		"a chunk of no size":            {head + auth + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", []int{400}},
		"a chunk of a negative size":    {head + auth + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", []int{400}},
		"a chunk of a huge size":        {head + auth + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", []int{400}},
		"chunk extensions without end":  {head + auth + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 64<<10), []int{400, 413, 0}},
		"chunks of one byte, comments":  {head + auth + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\n{\r\n", 3000), []int{400, 413, 0}},
		"an expectation":                {head + auth + length + "Expect: a-miracle\r\n\r\n" + body, []int{417}},
		"100-continue of a stranger":    {head + "Authorization: Bearer a.b.c\r\n" + length + "Expect: 100-continue\r\n\r\n", []int{401}},
		"100-continue, too long":        {head + auth + "Content-Length: 2097152\r\nExpect: 100-continue\r\n\r\n", []int{413}},
		"HTTP/1.0 of a stranger":        {"POST /api/messages HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", []int{401}},
		"an upgrade":                    {head + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\n{}", []int{401}},
		"a web socket":                  {"GET /api/messages HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", []int{405}},
		"CONNECT":                       {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", []int{404, 405}},
		"another address in the target": {"POST http://evil.example/other HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n", []int{404}},
		"OPTIONS *":                     {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", []int{200, 404, 405}},
		"gone in the middle":            {head + auth + "Content-Length: 1000\r\n\r\n{", none},
	} {
		before := w.outbound()
		l := w.dial(15 * time.Second)
		if _, err := io.WriteString(l, c.text); err != nil && !slices.Contains(c.want, 0) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasPrefix(name, "gone") {
			_ = l.Close()
		}
		got := l.status()
		if !slices.Contains(c.want, got) {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
		if strings.HasPrefix(name, "authorization") && got == http.StatusOK {
			w.next() // it is one header for net/http
			continue
		}
		if now := w.outbound(); now != before {
			t.Errorf("%s: %d calls of others for a %d", name, now-before, got)
		}
		_ = l.Close()
	}
	w.works()
	w.logIsClean()
}

// TestGoodHTTP that is rarely seen.
func TestGoodHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]func(head, auth, length, body string) string{
		"HTTP/1.0": func(head, auth, length, body string) string {
			return strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + auth + length + "\r\n" + body
		},
		"line feeds only": func(head, auth, length, body string) string {
			return strings.ReplaceAll(head+auth+length, "\r", "") + "\n" + body
		},
		"names in any case": func(head, auth, length, body string) string {
			return strings.ToUpper(strings.Split(head, "\r\n")[0][:4]) + head[4:] + strings.Replace(auth, "Authorization", "aUTHORIZATION", 1) + length + "\r\n" + body
		},
		"the whole address": func(head, auth, length, body string) string {
			return strings.Replace(head, "POST /", "POST http://"+w.addr+"/", 1) + auth + length + "\r\n" + body
		},
		"chunks of one byte": func(head, auth, _, body string) string {
			var chunks strings.Builder
			for _, b := range []byte(body) {
				chunks.WriteString(chunk(string([]byte{b})))
			}
			return head + auth + "Transfer-Encoding: chunked\r\n\r\n" + chunks.String() + "0\r\n\r\n"
		},
		"a trailer": func(head, auth, _, body string) string {
			return head + auth + "Trailer: Authorization\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body) + "0\r\nAuthorization: Bearer evil\r\n\r\n"
		},
	} {
		head, auth, body := w.wire()
		l := w.dial(15 * time.Second)
		if _, err := io.WriteString(l, text(head, auth, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := l.status(); got != http.StatusOK {
			t.Errorf("%s: status %d", name, got)
			continue
		}
		w.next()
	}
	w.logIsClean()
}

// TestSmuggling: what one reader takes for a body, another may take for a request.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head, auth, body := w.wire()
	hidden := head + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
	for name, text := range map[string]string{
		"length and chunks": head + auth + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(hidden)+5) + hidden,
		"behind a refusal":  head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hidden)) + hidden,
		"behind a long one": head + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n", 3<<20) + hidden,
	} {
		l := w.dial(15 * time.Second)
		_, _ = io.WriteString(l, text) // what is not read may not be taken either
		if got := l.status(); got < 400 {
			t.Errorf("%s: status %d", name, got)
		}
	}
	w.works()
	if all := w.connector.Sent(); len(all) > 2 {
		t.Errorf("%d calls", len(all))
	}
}

// TestPipelines are answered one by one, each by itself.
func TestPipelines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var text strings.Builder
	for i := range 20 {
		head, auth, body := w.wire()
		if i%2 == 1 {
			auth = ""
		}
		fmt.Fprintf(&text, "%s%sContent-Length: %d\r\n\r\n%s", head, auth, len(body), body)
	}
	l := w.dial(15 * time.Second)
	if _, err := io.WriteString(l, text.String()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		want := http.StatusOK
		if i%2 == 1 {
			want = http.StatusUnauthorized
		}
		if got := l.status(); got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
	for range 10 {
		w.next()
	}
	w.logIsClean()
}
