package bot

import (
	"errors"
	"net/http"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// whenKeysMissing is when to come back while the keys of the tokens' issuer
// cannot be had.
const whenKeysMissing = 2 * time.Second

// Guarded is the [Door] that lets in whom the guard lets in. Without an app id
// it also takes requests that name no content type, as old local clients send.
func Guarded(g *connector.Guard) Door { return guarded{g} }

type guarded struct{ guard *connector.Guard }

func (d guarded) Enter(r *http.Request) (Visitor, error) {
	claims, err := d.guard.Verify(r.Context(), r.Header.Values("Authorization"))
	if err != nil {
		return nil, fromGuard(err)
	}
	if r.Header.Get("Content-Type") == "" && !claims.Identity().Local {
		return nil, refuse(http.StatusUnsupportedMediaType, "no content type")
	}
	return permit{claims}, nil
}

type permit struct{ claims *connector.Claims }

func (p permit) Permit(a *activity.Activity) error { return fromGuard(p.claims.Permit(a)) }

// fromGuard gives the guard's refusal its HTTP status.
func fromGuard(err error) error {
	var refusal *connector.AuthError
	if !errors.As(err, &refusal) {
		return err
	}
	status := &StatusError{Status: refusal.Status, Err: err}
	if status.Status == http.StatusServiceUnavailable {
		status.RetryAfter = whenKeysMissing
	}
	return status
}
