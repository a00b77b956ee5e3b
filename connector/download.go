package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
)

const (
	defaultFileBytes = 20 << 20
	downloadTimeout  = time.Minute // of one try, with its redirects
	maxRedirects     = 3
	fileInfo         = "application/vnd.microsoft.teams.file.download.info"
)

// ErrTooLarge is wrapped when a file has more bytes than the caller wants.
var ErrTooLarge = errors.New("file too large")

// File is what was downloaded.
type File struct {
	ContentType string // media type by what the server said, without parameters; "" when it is none
	Content     []byte
}

// Download fetches what an attachment of an inbound activity leads to: a picture or file
// on a connector host, with the bot's token, or what a person of Teams shared (its content
// type is application/vnd.microsoft.teams.file.download.info), whose address lets whoever
// knows it in and is asked without the token. Another host than the connector's and
// Cloud.FileHosts, or plain http beyond this machine, wraps [ErrHostNotAllowed], and
// nothing is sent; so do redirects, of which three are followed at most, and the token goes
// only as far as they have not left the connector. More than maxBytes (0: 20 MiB) wraps
// [ErrTooLarge], whatever the server says of the length. A try takes a minute at most, and
// is repeated like any call. No error holds the address.
func (c *Client) Download(ctx context.Context, a activity.Attachment, maxBytes int64) (File, error) {
	const op = "download attachment"
	address, shared := a.ContentURL, a.ContentType == fileInfo
	if shared {
		var info struct {
			DownloadURL string `json:"downloadUrl"`
		}
		if json.Unmarshal(a.Content, &info) != nil {
			return File{}, fmt.Errorf("%s: its content has no downloadUrl", op)
		}
		address = info.DownloadURL
	}
	from, signed, err := c.fileAt(ctx, address)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", op, err)
	}
	return repeat(ctx, c.cfg.Tries, c.cfg.Tokens != nil, func(end time.Time) (File, error) {
		f, err := c.fetch(ctx, from, signed && !shared, maxBytes, end)
		if err != nil {
			return File{}, fmt.Errorf("%s: %w", op, err)
		}
		return f, nil
	})
}

// fileAt checks an address, and reports whether the bot's token may go there: to connector
// hosts; for a calling bot, to those that the operator listed.
func (c *Client) fileAt(ctx context.Context, address string) (u *url.URL, signed bool, err error) {
	u, signed, err = c.cfg.Hosts.file(address)
	if err == nil && callerOf(ctx) != "" {
		signed = c.cfg.Hosts.lists(u.Hostname(), effectivePort(u))
	}
	return u, signed, err
}

// fetch downloads once.
func (c *Client) fetch(ctx context.Context, from *url.URL, signed bool, maxBytes int64, end time.Time) (File, error) {
	if limit := time.Now().Add(downloadTimeout); limit.Before(end) {
		end = limit
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	token, err := "", error(nil)
	if signed {
		if token, err = c.token(ctx); err != nil {
			return File{}, err
		}
	}
	setHeaders := func(req *http.Request) {
		c.setHeaders(req, call{}, token)
		req.Header["Accept"] = []string{"*/*"}
	}
	follow := func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return &Error{Op: "redirect", Status: http.StatusFound, Message: fmt.Sprintf("more than %d redirects", maxRedirects)}
		}
		to, signed, err := c.fileAt(ctx, next.URL.String())
		if err != nil {
			return fmt.Errorf("redirect: %w", err)
		}
		if !signed {
			token = "" // from here on, also if it leads back
		}
		next.URL, next.Header = to, http.Header{} // without a Referer, which may open the file
		setHeaders(next)
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return File{}, errors.New("the address cannot be asked")
	}
	setHeaders(req)
	res, err := (&http.Client{Transport: c.files, CheckRedirect: follow}).Do(req)
	if err != nil {
		if quoting := (*url.Error)(nil); errors.As(err, &quoting) {
			err = quoting.Err // without the address
		}
		return File{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if res.StatusCode == http.StatusUnauthorized && token != "" {
			c.cfg.Tokens.Invalidate(token)
		}
		body, _ := readCapped(res.Body, maxReplyBytes) // what it says is a bonus
		return File{}, refusal("get the file", res, body)
	}
	return readFile(res, maxBytes)
}

func readFile(res *http.Response, maxBytes int64) (File, error) {
	if maxBytes <= 0 {
		maxBytes = defaultFileBytes
	}
	maxBytes = min(maxBytes, math.MaxInt64-1) // one more is read, to see whether there is more
	if res.ContentLength > maxBytes {
		return File{}, fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, res.ContentLength, maxBytes)
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return File{}, errors.New("the server encoded the content unasked")
	}
	content, err := io.ReadAll(io.LimitReader(res.Body, maxBytes+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("read the content: %w", err)
	case int64(len(content)) > maxBytes:
		return File{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBytes)
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	return File{ContentType: media, Content: content}, nil
}
