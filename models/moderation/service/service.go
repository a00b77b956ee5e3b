// Package service has moderators: [NewOpenAI] and [NewAzure] ask a service, and [Any] asks several moderators.
package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/models/moderation"
)

// Any returns a moderator that asks all of these at the same time and flags what any of them flags.
// If none flags and one has no verdict, there is no verdict. Without moderators there never is one.
func Any(moderators ...moderation.Moderator) moderation.Moderator { return all(moderators) }

type all []moderation.Moderator

func (a all) Judge(ctx context.Context, pieces []moderation.Piece) (moderation.Verdict, error) {
	if len(a) == 0 {
		return moderation.Verdict{}, fmt.Errorf("%w: nobody judges", moderation.ErrUnjudged)
	}
	asks := make([]ask, len(a))
	for i, m := range a {
		asks[i] = func(ctx context.Context) (v moderation.Verdict, err error) {
			defer func() {
				if p := recover(); p != nil { // it may be anybody's, and runs in a goroutine of ours
					err = fmt.Errorf("%w: the moderator panicked: %v", moderation.ErrUnjudged, p)
				}
			}()
			v, err = m.Judge(ctx, pieces)
			if v.Flagged() && v.Pieces == nil {
				for i := range pieces {
					v.Pieces = append(v.Pieces, i)
				}
			}
			return v, err
		}
	}
	return askAll(ctx, asks)
}

// ask is one question to a moderator.
type ask func(ctx context.Context) (moderation.Verdict, error)

const maxAtOnce = 4 // how many requests one call of Judge makes at the same time

// askAll asks all of them and returns the worst verdict. It waits for all.
func askAll(ctx context.Context, asks []ask) (v moderation.Verdict, _ error) {
	var mu sync.Mutex
	var running errgroup.Group
	running.SetLimit(maxAtOnce)
	for _, one := range asks {
		running.Go(func() error {
			said, err := one(ctx)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			v.Categories = append(v.Categories, said.Categories...)
			v.Pieces = append(v.Pieces, said.Pieces...)
			return nil
		})
	}
	if err := running.Wait(); !v.Flagged() {
		return moderation.Verdict{}, err
	}
	slices.Sort(v.Categories)
	slices.Sort(v.Pieces)
	v.Categories, v.Pieces = slices.Compact(v.Categories), slices.Compact(v.Pieces)
	return v, nil
}

const (
	maxWindow   = 10_000 // characters of one request, which is what Azure takes
	overlap     = 200    // characters that the next window repeats
	sentenceIn  = 1_000  // the last characters of a window in which a sentence may end it
	maxRequests = 64     // of one call of Judge
	separator   = "\n\n" // between texts that are sent as one
)

var ends = []string{"\n", ". ", "! ", "? ", "。", "！", "？"}

// windows cuts a text into parts of at most maxWindow characters, at the end of a sentence if there
// is one near. Each begins with the last characters of the one before it, so that nothing is cut in
// two everywhere.
func windows(text string) (all []string) {
	runes := []rune(text)
	for len(runes) > maxWindow {
		end := maxWindow
		last := string(runes[maxWindow-sentenceIn : maxWindow])
		if at := endOfSentence(last); at > 0 {
			end += utf8.RuneCountInString(last[:at]) - sentenceIn
		}
		all = append(all, string(runes[:end]))
		runes = runes[end-overlap:]
	}
	return append(all, string(runes))
}

// endOfSentence returns the index behind the last sentence; 0: there is no end of one.
func endOfSentence(text string) (at int) {
	for _, end := range ends {
		if i := strings.LastIndex(text, end); i >= 0 {
			at = max(at, i+len(end))
		}
	}
	return at
}

// batch is the texts of a request, and the piece of which each is all or a part.
type batch struct {
	texts  []string
	pieces []int
}

// batches packs texts into requests of at most maxWindow characters, and at most so many texts each.
// Long texts are cut into windows. Blank texts are left out.
func batches(pieces []moderation.Piece, most int, kinds ...moderation.Kind) (all []batch, err error) {
	room := 0
	for i, p := range pieces {
		if !slices.Contains(kinds, p.Kind) || strings.TrimSpace(p.Text) == "" {
			continue
		}
		if len(p.Text) > maxRequests*maxWindow*utf8.UTFMax {
			return nil, errTooLong
		}
		for _, window := range windows(p.Text) {
			n := utf8.RuneCountInString(window)
			if len(all) == 0 || n > room || len(all[len(all)-1].texts) == most {
				all, room = append(all, batch{}), maxWindow
			}
			last := &all[len(all)-1]
			last.texts, last.pieces = append(last.texts, window), append(last.pieces, i)
			room -= n + len(separator)
		}
	}
	if len(all) > maxRequests {
		return nil, errTooLong
	}
	return all, nil
}

func pictures(pieces []moderation.Piece) (all []int) {
	for i, p := range pieces {
		if p.Kind == moderation.Image && len(p.Picture) > 0 {
			all = append(all, i)
		}
	}
	return all
}

// dataURL has the whole picture in it.
func dataURL(picture []byte) string {
	return "data:" + http.DetectContentType(picture) + ";base64," + base64.StdEncoding.EncodeToString(picture)
}

var errTooLong = errors.New("the text is too long to be judged")

const (
	defaultTimeout = 3 * time.Second
	tries          = 2
	pause          = 100 * time.Millisecond // before the second try
	maxAnswer      = 1 << 20                // bytes
	maxOpen        = 32                     // how many requests a service gets at the same time, of all turns
)

// service is the HTTP side of a moderator.
type service struct {
	name    string
	base    string // address, to which paths are added
	header  string // has the key
	key     string
	timeout time.Duration // of one try
	client  *http.Client
	open    chan struct{} // has one for each request under way
}

// newService checks what all services have in common. faults get what is wrong.
func newService(s service, transport http.RoundTripper, faults *[]error) service {
	fault := func(format string, args ...any) { *faults = append(*faults, fmt.Errorf(format, args...)) }
	u, err := url.Parse(s.base)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		fault("URL: not an absolute https address")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		fault("URL: holds more than an address")
	case u.Scheme != "https" && !loopback.IsHost(u.Hostname()):
		fault("URL: %s is not https", u.Host)
	}
	switch {
	case s.key == "" && (err != nil || !loopback.IsHost(u.Hostname())):
		fault("no Key")
	case strings.ContainsFunc(s.key, func(r rune) bool { return r <= ' ' || r > '~' }):
		fault("Key: holds a space, line end or other character that no key has")
	}
	if s.timeout < 0 {
		fault("Timeout: %s is below zero", s.timeout)
	}
	s.base = strings.TrimRight(s.base, "/")
	s.timeout = cmp.Or(s.timeout, defaultTimeout)
	s.open = make(chan struct{}, maxOpen)
	if transport == nil {
		transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment, // never for loopback
			DialContext:         (&net.Dialer{Timeout: defaultTimeout}).DialContext,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: defaultTimeout,
		}
	}
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// judge asks all, within the time of all tries of one request.
func (s *service) judge(ctx context.Context, asks []ask) (moderation.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, tries*s.timeout)
	defer cancel()
	v, err := askAll(ctx, asks)
	if err != nil {
		err = s.unjudged(err)
	}
	return v, err
}

func (s *service) unjudged(err error) error {
	return fmt.Errorf("%w: %s: %w", moderation.ErrUnjudged, s.name, err)
}

// post asks the service, twice if it is away or too busy, and reads its answer.
func (s *service) post(ctx context.Context, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	once := func() ([]byte, error) { return s.once(ctx, path, raw) }
	answer, err := backoff.Retry(ctx, once, backoff.WithBackOff(backoff.NewConstantBackOff(pause)), backoff.WithMaxTries(tries))
	if err != nil {
		return err
	}
	if json.Unmarshal(answer, into) != nil {
		return errors.New("the answer is not the JSON that it should be") // the cause may quote it
	}
	return nil
}

func (s *service) once(ctx context.Context, path string, body []byte) ([]byte, error) {
	select {
	case s.open <- struct{}{}:
		defer func() { <-s.open }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set(s.header, s.key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		if resp.StatusCode < http.StatusInternalServerError && resp.StatusCode != http.StatusTooManyRequests {
			return nil, backoff.Permanent(err)
		}
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		return nil, backoff.Permanent(fmt.Errorf("its answer has more than %d bytes", maxAnswer))
	}
	return answer, err
}

const other = "other" // the category of what a service names with more than a name

var isCategory = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9/_-]{0,63}$`)

// category returns the name of a category as a service writes it, in lower case. Names go to logs,
// so nothing else may pass for one.
func category(name string) string {
	if !isCategory.MatchString(name) {
		return other
	}
	return strings.ToLower(name)
}
