package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/calls"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxAnswer    = 8 << 20
	maxComplaint = 64 << 10 // of an answer that is an error
	maxTries     = 3
	pause        = 500 * time.Millisecond // before another try
	maxWait      = 10 * time.Second       // if the service names a time
	maxRedirects = 3
	maxEntries   = 50  // of a list
	maxReason    = 500 // characters
)

var errClosed = errors.New("the connection is closed")

// call makes a request, more than once only if it just reads or if nothing of it was sent.
func (c *Connection) call(ctx context.Context, turn *actions.Turn, o *operation, entities map[string]any) (actions.Result, error) {
	r, err := o.request(entities)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return actions.Fail("%s", refused.why), nil
	}
	if err != nil {
		return actions.Result{}, err
	}
	if actions.AttemptOf(ctx).Again && !o.safe && o.attempts == "" {
		return actions.Result{}, o.uncertain(errors.New("an earlier process may have sent it"))
	}
	if err := c.complete(ctx, turn, o, r); err != nil {
		return actions.Result{}, err
	}
	within, end, err := c.begin(ctx, turn)
	if err != nil {
		return actions.Result{}, err
	}
	defer end()
	for try := 1; ; try++ {
		a, sent, err := c.send(within, o, r)
		if err == nil && !a.failed(o.safe) {
			return c.outcome(o, a)
		}
		wait, again := o.again(a, sent, err)
		if again && try < maxTries && calls.Sleep(within, wait) {
			continue
		}
		switch {
		case err == nil && a.status == http.StatusTooManyRequests:
			return c.outcome(o, a)
		case err == nil && a.broken != nil:
			err = a.broken
		case err == nil:
			err = fmt.Errorf("it answered %d", a.status)
		}
		switch {
		case !o.safe && sent:
			return actions.Result{}, o.uncertain(err)
		case ctx.Err() != nil:
			return actions.Result{}, ctx.Err()
		case c.ctx.Err() != nil:
			return actions.Result{}, errClosed
		}
		c.cfg.Log.Warn().Str("connection", c.cfg.Key).Str("action", o.Action.Name).Str("error", err.Error()).Int("tries", try).Msg("service does not answer")
		switch {
		case within.Err() != nil:
			return actions.Fail("%s did not answer in time.", c.cfg.Key), nil
		case a != nil && a.broken == nil:
			return actions.Fail("%s answered %d: it does not work right now.", c.cfg.Key, a.status), nil
		}
		return actions.Fail("%s cannot be reached right now, so nothing was done.", c.cfg.Key), nil
	}
}

// again says whether a request that did not work may be sent once more, and after how long: if the
// operation just reads, or if nothing of it was sent.
func (o *operation) again(a *answer, sent bool, err error) (wait time.Duration, again bool) {
	wait = pause
	switch {
	case errors.Is(err, connections.ErrAddress):
		return 0, false
	case err != nil:
		return wait, o.safe || !sent
	case !o.safe:
		return 0, false
	}
	after, said := calls.RetryAfter(a.header)
	if said {
		wait = after
	}
	return wait, wait <= maxWait && (said || a.status != http.StatusTooManyRequests)
}

// uncertain is the error of a call that may have been done.
func (o *operation) uncertain(cause error) error {
	return fmt.Errorf("%s %s: %w: %w", o.Method, o.path, actions.ErrUncertain, cause)
}

// complete adds what no model says. What the operator and the person say comes last, so it wins.
func (c *Connection) complete(ctx context.Context, turn *actions.Turn, o *operation, r *request) error {
	r.header.Set("Accept", o.accept)
	r.header.Set("User-Agent", userAgent)
	if r.body != nil {
		r.header.Set("Content-Type", o.body.mediaType)
	}
	if o.attempts != "" {
		key := actions.AttemptOf(ctx).Key
		if key == "" {
			key = uuid.NewString()
		}
		r.header.Set(o.attempts, key)
	}
	if !o.inside {
		return nil
	}
	for name, values := range c.cfg.Header {
		r.header[name] = slices.Clone(values)
	}
	if len(c.cfg.Query) > 0 {
		parts := slices.DeleteFunc(strings.Split(r.url.RawQuery, "&"), func(part string) bool {
			name, _, _ := strings.Cut(part, "=")
			plain, err := url.QueryUnescape(name)
			_, own := c.cfg.Query[plain]
			return part == "" || err != nil || own
		})
		own := url.Values{}
		for name, value := range c.cfg.Query {
			own.Set(name, value)
		}
		r.url.RawQuery = strings.Join(append(parts, own.Encode()), "&")
	}
	if c.cfg.SignIn == "" {
		return nil
	}
	if turn == nil || turn.UserToken == nil {
		return errors.New("no bot runs the turn, so there is no token of the person")
	}
	token, err := turn.UserToken(ctx, c.cfg.SignIn)
	if err != nil {
		return err
	}
	if token.Secret() == "" {
		return connector.ErrNoUserToken
	}
	r.header.Set("Authorization", "Bearer "+token.Secret())
	return nil
}

// begin waits until the call may run. It ends when the connection is closed, and in time.
func (c *Connection) begin(ctx context.Context, turn *actions.Turn) (within context.Context, end func(), err error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, nil, errClosed
	}
	c.running.Add(1)
	c.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, callTimeout)
	stop := context.AfterFunc(c.ctx, cancel)
	leave := func() {
		stop()
		cancel()
		c.running.Done()
	}
	release, err := c.slots.Take(within, calls.PersonOf(turn))
	if err != nil {
		leave()
		if c.ctx.Err() != nil {
			err = errClosed
		}
		return nil, nil, fmt.Errorf("wait for other calls: %w", err)
	}
	return within, func() {
		release()
		leave()
	}, nil
}

// answer is what the service said.
type answer struct {
	status int
	header http.Header
	body   []byte
	broken error // the body could not be read to its end
}

// failed reports whether the answer is none that a call can end with.
func (a *answer) failed(safe bool) bool {
	return a.status >= 500 || a.status == http.StatusTooManyRequests || safe && a.broken != nil && !errors.Is(a.broken, errTooLarge)
}

// send sends a request once. sent says that the service may have read it. The error shows nothing of the
// address but its host.
func (c *Connection) send(ctx context.Context, o *operation, r *request) (a *answer, sent bool, err error) {
	var wrote atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, o.Method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, false, fmt.Errorf("a request of %s cannot be made", o.Remote)
	}
	request.Header = r.header.Clone()
	client := c.client
	if o.inside {
		client = c.trusted
	}
	response, err := client.Do(request)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // without the address, which may have a secret in its query
		}
		return nil, wrote.Load(), fmt.Errorf("%s: %w", r.url.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	a = &answer{status: response.StatusCode, header: response.Header}
	if a.status/100 == 2 {
		a.body, a.broken = readAll(response.Body, maxAnswer)
	} else {
		a.body, _ = io.ReadAll(io.LimitReader(response.Body, maxComplaint))
	}
	return a, true, nil
}

// redirect allows a redirect only of what reads, and only within the origin.
func (c *Connection) redirect(next *http.Request, before []*http.Request) error {
	reads := func(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
	if first := before[0]; !c.cfg.FollowRedirects || len(before) > maxRedirects || !reads(first) || !reads(next) || next.URL.User != nil || origin(next.URL) != origin(first.URL) {
		return http.ErrUseLastResponse
	}
	return nil
}

// outcome is what an answer means.
func (c *Connection) outcome(o *operation, a *answer) (actions.Result, error) {
	switch {
	case a.status/100 == 2:
		return c.result(o, a), nil
	case a.status/100 == 3 && (a.header.Get("Location") != "" || !o.safe && a.status < http.StatusNotModified):
		to := "elsewhere"
		if location, err := url.Parse(a.header.Get("Location")); err == nil && location.Host != "" {
			to = "to " + spelling.Clip(location.Host)
		}
		if !o.safe && a.status < http.StatusNotModified { // 303 says that it was done, 301 and 302 may say so
			return actions.Result{}, o.uncertain(fmt.Errorf("it answered %d and redirects %s", a.status, to))
		}
		c.refused(o, a)
		return actions.Fail("%s answered %d: it redirects %s, which is not followed.", c.cfg.Key, a.status, to), nil
	case a.status == http.StatusUnauthorized && c.cfg.SignIn != "" && o.inside:
		return actions.Result{}, fmt.Errorf("%s %s: %w: it answered 401", o.Method, o.path, connector.ErrNoUserToken)
	case a.status == http.StatusForbidden && c.cfg.SignIn != "" && o.inside && connections.Needs(a.header) != nil:
		return actions.Result{}, fmt.Errorf("%s %s: %w", o.Method, o.path, connections.Needs(a.header))
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		c.refused(o, a)
		return actions.Fail("%s does not allow this: it answered %d.", c.cfg.Key, a.status), nil
	case a.status == http.StatusTooManyRequests:
		when := "later"
		if after, said := calls.RetryAfter(a.header); said {
			when = fmt.Sprintf("in %d seconds", int(after.Seconds()))
		}
		return actions.Fail("%s answered 429: it is busy. Try again %s.", c.cfg.Key, when), nil
	}
	text := fmt.Sprintf("%s answered %d", c.cfg.Key, a.status)
	if why := a.complaint(); why != "" {
		text += ": " + why
	}
	return actions.Fail("%s", text), nil
}

// whereabouts says where the thing is that a call has made, or what came of one that is still at work; "":
// the service does not say it.
func (a *answer) whereabouts() string {
	location := spelling.OneLine(a.header.Get("Location"), maxReason)
	switch {
	case location == "" || a.status != http.StatusCreated && a.status != http.StatusAccepted:
		return ""
	case a.status == http.StatusAccepted:
		return "Accepted, but not done yet. What comes of it is at " + location + "."
	}
	return "Done. It is at " + location + "."
}

func (c *Connection) refused(o *operation, a *answer) {
	c.cfg.Log.Warn().Str("connection", c.cfg.Key).Str("action", o.Action.Name).Int("status", a.status).Msg("service refused a call")
}

// complaint is what an answer says about an error, on one line.
func (a *answer) complaint() string {
	var problem struct {
		Title, Detail string
		Errors        json.RawMessage // which fields are wrong, as ASP.NET and others say it
	}
	if isJSON(a.mediaType()) && json.Unmarshal(a.body, &problem) == nil && problem.Title+problem.Detail != "" {
		said := slices.DeleteFunc([]string{problem.Title, problem.Detail}, func(text string) bool { return text == "" })
		if value, err := decode(problem.Errors); err == nil && value != nil {
			said = append(said, plain(value))
		}
		return spelling.OneLine(strings.Join(said, ": "), maxReason)
	}
	if !isJSON(a.mediaType()) && !strings.HasPrefix(a.mediaType(), "text/plain") {
		return ""
	}
	return spelling.OneLine(string(a.body), maxReason)
}

func (a *answer) mediaType() string {
	mediaType, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) { // services write parameters as they like
		mediaType = ""
	}
	if mediaType == "" && json.Valid(a.body) { // and leave out the type
		return "application/json"
	}
	return mediaType
}

// result is what the model gets of an answer.
func (c *Connection) result(o *operation, a *answer) actions.Result {
	unreadable := func(why string) actions.Result {
		if o.safe {
			return actions.Fail("The answer of %s cannot be used: %s.", c.cfg.Key, why)
		}
		return actions.Text("Done, but its answer could not be read: %s.", why)
	}
	mediaType := a.mediaType()
	switch where := a.whereabouts(); {
	case where != "" && a.broken == nil && len(a.body) == 0:
		return actions.Text("%s", where)
	case errors.Is(a.broken, errTooLarge):
		return unreadable(fmt.Sprintf("it is larger than %d MB", maxAnswer>>20))
	case a.broken != nil:
		return unreadable("it broke off")
	case len(a.body) == 0:
		return actions.Done
	case isJSON(mediaType):
		value, err := decode(bytes.TrimPrefix(a.body, []byte("\ufeff")))
		if err != nil {
			return unreadable("it is no JSON")
		}
		value, ok := o.answer.of(value)
		if !ok {
			return unreadable("it has no " + o.answer.Data)
		}
		if object, isObject := value.(map[string]any); isObject && where != "" && object["location"] == nil {
			object["location"] = a.header.Get("Location")
		}
		return actions.JSON(shorten(value))
	case strings.HasPrefix(mediaType, "text/"):
		text := strings.ToValidUTF8(string(a.body), "\uFFFD")
		if where != "" {
			text = where + "\n" + text
		}
		return actions.Text("%s", text)
	}
	mediaType = cmp.Or(mediaType, "no type")
	return actions.Text("[%s, %s]", mediaType, size(len(a.body)))
}

// size writes a number of bytes for people.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// of returns the part of a value that the model gets.
func (want Answer) of(value any) (any, bool) {
	for token := range jsontext.Pointer(want.Data).Tokens() {
		var ok bool
		if value, ok = member(value, token); !ok {
			return nil, false
		}
	}
	if want.Fields == nil {
		return value, true
	}
	if list, isList := value.([]any); isList {
		for i := range list {
			list[i] = want.fields(list[i])
		}
		return list, true
	}
	return want.fields(value), true
}

func (want Answer) fields(value any) any {
	object, isObject := value.(map[string]any)
	if !isObject {
		return value
	}
	kept := map[string]any{}
	for _, name := range want.Fields {
		if field, has := object[name]; has {
			kept[name] = field
		}
	}
	return kept
}

// shorten cuts each list in a value, and says so in its last entry.
func shorten(value any) any {
	switch value := value.(type) {
	case []any:
		if more := len(value) - maxEntries; more > 0 {
			value = append(value[:maxEntries:maxEntries], fmt.Sprintf("and %d more", more))
		}
		for i := range value {
			value[i] = shorten(value[i])
		}
		return value
	case map[string]any:
		for name := range value {
			value[name] = shorten(value[name])
		}
	}
	return value
}
