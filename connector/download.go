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

// source is where a file is, and whether the bot's token may go there.
type source struct {
	url    *url.URL
	signed bool
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
	from, err := c.source(ctx, a)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", op, err)
	}
	return repeat(ctx, c.cfg.Tries, c.cfg.Tokens != nil, func(end time.Time) (File, error) { return c.fetch(ctx, op, from, maxBytes, end) })
}

func (c *Client) source(ctx context.Context, a activity.Attachment) (source, error) {
	if a.ContentType != fileInfo {
		return c.sourceAt(ctx, a.ContentURL)
	}
	var info struct {
		DownloadURL string `json:"downloadUrl"`
	}
	if err := json.Unmarshal(a.Content, &info); err != nil {
		return source{}, errors.New("its content has no downloadUrl")
	}
	from, err := c.sourceAt(ctx, info.DownloadURL)
	from.signed = false
	return from, err
}

// sourceAt is signed when the address is on a connector host; for a calling bot, on one
// that the operator listed.
func (c *Client) sourceAt(ctx context.Context, address string) (source, error) {
	u, ofConnector, err := c.cfg.Hosts.file(address)
	if err == nil && callerOf(ctx) != "" {
		ofConnector = c.cfg.Hosts.lists(u.Hostname(), effectivePort(u))
	}
	return source{u, ofConnector}, err
}

// fetch downloads once, and follows redirects.
func (c *Client) fetch(ctx context.Context, op string, from source, maxBytes int64, end time.Time) (File, error) {
	if limit := time.Now().Add(downloadTimeout); limit.Before(end) {
		end = limit
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	for redirects := 0; ; redirects++ {
		f, next, err := c.follow(ctx, op, from, maxBytes)
		if err != nil || next == nil {
			return f, err
		}
		if redirects == maxRedirects {
			return File{}, &Error{Op: op, Status: http.StatusFound, Message: fmt.Sprintf("more than %d redirects", maxRedirects)}
		}
		from = *next
	}
}

// follow asks one address. The answer is the file, or where else to look.
func (c *Client) follow(ctx context.Context, op string, from source, maxBytes int64) (File, *source, error) {
	res, err := c.ask(ctx, op, from)
	if err != nil {
		return File{}, nil, err
	}
	defer res.Body.Close()
	switch {
	case redirect(res.StatusCode):
		next, err := c.redirected(ctx, from, res)
		if err != nil {
			err = fmt.Errorf("%s: redirect: %w", op, err)
		}
		return File{}, &next, err
	case res.StatusCode != http.StatusOK:
		body, _ := readCapped(res.Body, maxReplyBytes) // what it says is a bonus
		return File{}, nil, refusal(op, res, body)
	}
	f, err := readFile(res, maxBytes)
	if err != nil {
		return File{}, nil, fmt.Errorf("%s: %w", op, err)
	}
	return f, nil, nil
}

// ask makes the request, with the bot's token where that may go. The transport's errors
// do not hold the address.
func (c *Client) ask(ctx context.Context, op string, from source) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.url.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: the address cannot be asked", op)
	}
	token := ""
	if from.signed {
		if token, err = c.token(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
	}
	c.setHeaders(req, call{}, token)
	req.Header["Accept"] = []string{"*/*"}
	res, err := c.files.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if res.StatusCode == http.StatusUnauthorized && token != "" {
		c.cfg.Tokens.Invalidate(token)
	}
	return res, nil
}

func redirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// redirected checks the next address like the first. The token does not come back once
// it was left behind.
func (c *Client) redirected(ctx context.Context, from source, res *http.Response) (source, error) {
	to, err := from.url.Parse(res.Header.Get("Location"))
	if err != nil {
		return source{}, fmt.Errorf("%w: not a URL", ErrHostNotAllowed)
	}
	next, err := c.sourceAt(ctx, to.String())
	next.signed = next.signed && from.signed
	return next, err
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
