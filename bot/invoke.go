package bot

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
)

// InvokeHandler answers an invoke in the HTTP response: the body is written as
// JSON, nil as an empty one. The rule of [Handler] on running again holds. An
// [*InvokeError] that it returns is its answer; what it changed in state is kept.
type InvokeHandler func(ctx context.Context, t *Turn) (InvokeResponse, error)

// InvokeResponse is the answer to an invoke. The zero status is 200; one that is no status
// of an answer, 200 to 599, is a failure of the handler.
type InvokeResponse struct {
	Status int
	Body   any
}

// InvokeError is a failure as the answer to an invoke, with the body
// {"error":{"code","message"}}; of a click on a card with that of [CardError]. The person
// may read both. A Status that is none of 400 to 599 is 500.
type InvokeError struct {
	Status        int
	Code, Message string
}

func (e *InvokeError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// faultBody is how a failure is told.
type faultBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *InvokeError) response() *InvokeResponse {
	status := e.Status
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	return &InvokeResponse{Status: status, Body: map[string]faultBody{"error": {e.Code, e.Message}}}
}

func badValue(format string, args ...any) *InvokeError {
	return &InvokeError{Status: http.StatusBadRequest, Code: "BadRequest", Message: fmt.Sprintf(format, args...)}
}

// invokeRoute is how the invokes of one name are answered.
type invokeRoute struct {
	// check answers an invoke that is wrong, before there is a turn of it; nil: it is
	// not. It may itself be nil.
	check  func(a *activity.Activity) *InvokeResponse
	handle InvokeHandler
	// atOnce is whether the invoke is answered, with an empty body, once it is kept.
	atOnce bool
}

// OnInvoke registers the handler of the invokes of that name. An invoke without
// a handler is answered with 501. It panics when the name has a handler: that is
// a wiring mistake. See [AddInvoke] for one that is typed, and [Bot.OnCardAction] and
// [Bot.OnFeedback] for the invokes that the bot knows itself.
func (b *Bot) OnInvoke(name string, h InvokeHandler) {
	b.routes.addInvoke(name, invokeRoute{handle: h})
}

// AddInvoke is [Bot.OnInvoke] with the types of the value that comes and of the body that
// answers it; an Out of struct{} is an empty body. A value that is missing or is no In is
// answered 400, and h is not called; so is one of which its method Check() error, if In has
// it, says that it is wrong, in words that the caller reads. With an In of struct{} the value is not looked at.
func AddInvoke[In, Out any](b *Bot, name string, h func(ctx context.Context, t *Turn, in In) (Out, error)) {
	b.routes.addInvoke(name, invokeRoute{
		check: func(a *activity.Activity) *InvokeResponse {
			if _, fault := valueOf[In](a); fault != nil {
				return fault.response()
			}
			return nil
		},
		handle: func(ctx context.Context, t *Turn) (InvokeResponse, error) {
			in, fault := valueOf[In](t.Activity)
			if fault != nil {
				return InvokeResponse{}, fault // another version of the bot accepted it
			}
			out, err := h(ctx, t, in)
			if _, empty := any(out).(struct{}); empty || err != nil {
				return InvokeResponse{}, err
			}
			return InvokeResponse{Body: out}, nil
		},
	})
}

// valueOf reads the value of an invoke.
func valueOf[In any](a *activity.Activity) (in In, fault *InvokeError) {
	if _, any := any(in).(struct{}); any {
		return in, nil
	}
	if len(a.Value) == 0 || a.Value.Kind() == 'n' {
		return in, badValue("the invoke has no value")
	}
	if err := json.Unmarshal(a.Value, &in); err != nil {
		return in, badValue("the value of the invoke is of another form")
	}
	if c, ok := any(&in).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return in, badValue("%s", err)
		}
	}
	return in, nil
}

func (r *routes) addInvoke(name string, route invokeRoute) {
	if r.invokes == nil {
		r.invokes = map[string]invokeRoute{}
	}
	if _, taken := r.invokes[name]; taken {
		panic("bot: invoke " + name + " has a handler")
	}
	r.invokes[name] = route
}

// invoke returns how the activity is answered, if it is an invoke that is.
func (r *routes) invoke(a *activity.Activity) (route invokeRoute, ok bool) {
	if a.Type != activity.Invoke {
		return route, false
	}
	if route, ok = r.invokes[a.Name]; !ok {
		route, ok = r.known[a.Name]
	}
	return route, ok
}

// awaits reports whether who brings the activity waits for the answer of its turn.
func (b *Bot) awaits(a *activity.Activity) bool {
	route, _ := b.routes.invoke(a)
	return a.Type == activity.Invoke && !route.atOnce || b.cfg.AckTimeout > 0
}

// wrong answers an invoke whose value no handler could do anything with, so that it
// costs neither a turn nor a wait; nil: it is none.
func (b *Bot) wrong(t *Turn) *InvokeResponse {
	route, _ := b.routes.invoke(t.Activity)
	if route.check == nil {
		return nil
	}
	response := route.check(t.Activity)
	if response != nil {
		t.log().Warn().Str("invoke", t.Activity.Name).Msg("invoke refused: its value is wrong")
	}
	return response
}

// answering is the invoke's handler as one that leaves its answer in the turn.
func answering(h InvokeHandler) Handler {
	return func(ctx context.Context, t *Turn) error {
		answer, err := h(ctx, t)
		if fault, ok := errors.AsType[*InvokeError](err); ok {
			zerolog.Ctx(ctx).Info().Str("code", fault.Code).Msg("invoke answered with an error")
			answer, err = *fault.response(), nil
		}
		if err != nil {
			return err
		}
		if s := answer.Status; s != 0 && (s < 200 || s > 599) {
			return fmt.Errorf("answer invoke %s: %d is no status", t.Activity.Name, s)
		}
		t.answer = answer
		return nil
	}
}

// brokenAnswer is what answers an invoke that failed. said is safe to be read.
func (t *Turn) brokenAnswer(said string) InvokeResponse {
	if t.Activity.Name == cardInvoke {
		return CardError(http.StatusInternalServerError, "ServiceError", said).response()
	}
	return InvokeResponse{Status: http.StatusInternalServerError}
}
