package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/models"
)

// choice is something that a form offers.
type choice struct{ Name, Title string }

// The faults that can be set. A fault of the model is what is left after its own retries.
var (
	modelFaults = []choice{
		{"429", "429, with Retry-After"},
		{"500", "500"},
		{"timeout", "no answer in time"},
		{"cut", "an answer that is cut off"},
		{"filtered", "refused by the filter"},
		{"empty", "an empty answer"},
		{"nonsense", "nonsense"},
	}
	sendFaults = []choice{
		{"429", "429, with Retry-After"},
		{"502", "502, although it is delivered"},
		{"403", "403"},
		{"lost", "no answer, and it is lost"},
	}
	crashPoints = []choice{
		{"called", "before its outcome is saved"},
		{"saved", "once its outcome is saved"},
	}
)

const (
	maxFaults  = 100             // limits for how many calls a fault is set
	retryAfter = 2 * time.Second // what a fault with 429 asks for
)

// fault goes wrong a number of times.
type fault struct {
	Kind string `json:"fault"` // "": none
	Left int    `json:"left"`
}

// next is the fault of this call; "": none.
func (f *fault) next() string {
	if f.Left == 0 {
		return ""
	}
	kind := f.Kind
	if f.Left--; f.Left == 0 {
		f.Kind = ""
	}
	return kind
}

// crash ends the process in a turn.
type crash struct {
	After int    `json:"after"` // that many calls of actions; 0: never
	When  string `json:"when"`
}

// faults are what goes wrong on purpose. It is safe for concurrent use.
type faults struct {
	page *server

	mu     sync.Mutex
	model  fault
	sends  fault
	crash  crash
	called map[string]int // calls by turn, since the crash was set
}

func (f *faults) routes(mux *http.ServeMux) {
	p := f.page
	mux.HandleFunc("GET /dev/faults", func(w http.ResponseWriter, _ *http.Request) {
		p.show(w, "/dev/faults", "Faults", p.faultsPage(f.view("", "")))
	})
	mux.HandleFunc("GET /dev/faults.json", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, f.view("", "")) })
	mux.HandleFunc("POST /dev/faults", p.acts(func(w http.ResponseWriter, r *http.Request) {
		if err := f.set(r.PostFormValue("of"), r.PostFormValue("fault"), r.PostFormValue("n")); err != nil {
			p.fail(w, http.StatusBadRequest, "This fault cannot be set: "+err.Error()+".")
			return
		}
		if r.PostFormValue("room") != "" {
			p.done(w, r, nil)
			return
		}
		http.Redirect(w, r, "/dev/faults", http.StatusSeeOther)
	}))
	mux.HandleFunc("POST /dev/faults/clear", p.acts(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.model, f.sends, f.crash, f.called = fault{}, fault{}, crash{}, nil
		f.mu.Unlock()
		back := r.PostFormValue("back")
		if !slices.ContainsFunc(p.tabs, func(t tabOf) bool { return string(t.Path) == back }) {
			back = "/dev/faults"
		}
		http.Redirect(w, r, back, http.StatusSeeOther)
	}))
}

func (f *faults) set(of, kind, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil || n < 1 || n > maxFaults {
		return fmt.Errorf("the number must be from 1 to %d", maxFaults)
	}
	kinds := map[string][]choice{"model": modelFaults, "sends": sendFaults, "crash": crashPoints}[of]
	if !slices.ContainsFunc(kinds, func(c choice) bool { return c.Name == kind }) {
		return errors.New("there is no such fault")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case of == "model":
		f.model = fault{kind, n}
	case of == "sends":
		f.sends = fault{kind, n}
	case f.page.of.Crash == nil:
		return errors.New("the state of this bot ends with its process, so nothing would go on after a crash")
	default:
		f.crash, f.called = crash{n, kind}, map[string]int{}
	}
	return nil
}

// faultsView is what is set, and what can be.
type faultsView struct {
	Version  int   `json:"version"`
	Model    fault `json:"model"`
	Sends    fault `json:"sends"`
	Crash    crash `json:"crash"`
	CanCrash bool  `json:"canCrash"` // state outlives the process

	Words                                []string `json:"-"` // what is set
	Room, As                             string   `json:"-"` // where the forms lead back to
	ModelFaults, SendFaults, CrashPoints []choice `json:"-"`
}

func (f *faults) view(room, as string) faultsView {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := faultsView{
		Version: 1, Model: f.model, Sends: f.sends, Crash: f.crash, CanCrash: f.page.of.Crash != nil, Room: room, As: as,
		ModelFaults: modelFaults, SendFaults: sendFaults, CrashPoints: crashPoints,
	}
	title := func(of []choice, name string) string {
		return of[slices.IndexFunc(of, func(c choice) bool { return c.Name == name })].Title
	}
	if v.Model.Left > 0 {
		v.Words = append(v.Words, fmt.Sprintf("next model calls (%d): %s", v.Model.Left, title(modelFaults, v.Model.Kind)))
	}
	if v.Sends.Left > 0 {
		v.Words = append(v.Words, fmt.Sprintf("next messages to the channel (%d): %s", v.Sends.Left, title(sendFaults, v.Sends.Kind)))
	}
	if v.Crash.After > 0 {
		v.Words = append(v.Words, fmt.Sprintf("the bot crashes after command %d of a turn, %s", v.Crash.After, title(crashPoints, v.Crash.When)))
	}
	return v
}

// faulty is a model with the faults that are set.
type faulty struct {
	models.Model
	faults *faults
}

func (m faulty) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	m.faults.mu.Lock()
	kind := m.faults.model.next()
	m.faults.mu.Unlock()
	switch kind {
	case "":
		return m.Model.Complete(ctx, req)
	case "429":
		return nil, &models.Error{Kind: models.Throttled, Status: http.StatusTooManyRequests, RetryAfter: retryAfter, Err: errOnPurpose}
	case "500":
		return nil, &models.Error{Kind: models.Unavailable, Status: http.StatusInternalServerError, Err: errOnPurpose}
	case "timeout":
		return nil, &models.Error{Kind: models.Timeout, Err: errOnPurpose}
	case "filtered":
		return nil, &models.Error{Kind: models.Filtered, Status: http.StatusBadRequest, Code: "content_filter", Err: errOnPurpose}
	case "empty":
		return nil, &models.Error{Kind: models.Empty, Err: errOnPurpose}
	case "cut":
		return m.cut(ctx, req)
	}
	const text = `{"type":"plan","commands":[{"type":"DO","action":"noSuchAction","entities":{"why":"a fault on purpose"}}]}`
	if len(req.Tools) > 0 {
		return &models.Response{Calls: []models.Call{{ID: "fault", Name: "noSuchAction", Arguments: "{"}}, Finish: "tool_calls"}, nil
	}
	return &models.Response{Text: text, Finish: "stop"}, nil
}

var errOnPurpose = errors.New("a fault that was set on the page") // the cause of each fault of the model

// cut answers the first half of what the model says.
func (m faulty) cut(ctx context.Context, req *models.Request) (*models.Response, error) {
	whole := *req
	whole.Stream = nil // it would show more than the half
	res, err := m.Model.Complete(ctx, &whole)
	if err != nil {
		return nil, err
	}
	half := *res
	half.Finish, half.Calls = "length", slices.Clone(res.Calls)
	half.Text = strings.ToValidUTF8(res.Text[:len(res.Text)/2], "")
	if n := len(half.Calls); n > 0 {
		args := &half.Calls[n-1].Arguments
		*args = strings.ToValidUTF8((*args)[:len(*args)/2], "")
	}
	if strings.TrimSpace(half.Text) == "" && len(half.Calls) == 0 {
		return nil, &models.Error{Kind: models.Empty, Code: "length", Usage: res.Usage, Err: errOnPurpose}
	}
	return &half, nil
}

// send is what a connector answers, with the faults that are set. They are for messages, and not for
// signs that the bot is typing.
func (f *faults) send(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			refused(w, http.StatusBadRequest, "BadArgument", "no activity: "+err.Error())
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		var head struct{ Type activity.Type }
		kind := ""
		if json.Unmarshal(raw, &head) == nil && head.Type == activity.Message {
			f.mu.Lock()
			kind = f.sends.next()
			f.mu.Unlock()
		}
		switch kind {
		case "":
			h(w, r)
		case "429":
			w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			refused(w, http.StatusTooManyRequests, "Throttled", errOnPurpose.Error())
		case "502":
			h(unheard{}, r)
			refused(w, http.StatusBadGateway, "ServiceError", errOnPurpose.Error())
		case "403":
			refused(w, http.StatusForbidden, "Forbidden", errOnPurpose.Error())
		default:
			panic(http.ErrAbortHandler) // which closes the connection
		}
	}
}

// unheard is an answer that nobody gets.
type unheard struct{}

func (unheard) Header() http.Header         { return http.Header{} }
func (unheard) Write(p []byte) (int, error) { return len(p), nil }
func (unheard) WriteHeader(int)             {}

// watch ends the process if a crash is set for this moment of a turn.
func (f *faults) watch(e turn.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crash.After == 0 {
		return
	}
	now := false
	switch n := f.called[e.Turn]; {
	case e.Called != nil:
		f.called[e.Turn] = n + 1
		now = f.crash.When == "called" && n+1 >= f.crash.After
	case e.Saved != nil:
		now = n >= f.crash.After && e.Saved.Err == ""
	case e.Ended != nil:
		delete(f.called, e.Turn)
	}
	if now {
		f.page.cfg.Log.Warn().Str("turn", e.Turn).Msg("the bot crashes here, as it was told to on the page")
		ctx, cancel := context.WithTimeout(context.Background(), keepEvery)
		defer cancel()
		_ = f.page.turns.Settle(ctx) // what it does not reach is missing on the next page
		f.page.keeper.leave()
		f.page.of.Crash()
	}
}
