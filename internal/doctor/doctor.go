// Package doctor checks the settings of a bot and explains each in words that
// somebody who has never run one understands: what is set, whether it works,
// and what to do about it.
//
// It knows none of the rooms that it checks: whoever calls it gives it functions
// that try a setting out.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Status is what came of a check.
type Status string

// The three outcomes. Only Fail means that the bot will not work.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is what is known about one setting. Hint, if any, is what to do next.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Probe finds out about one setting. Run must return soon after its context
// ends. It leaves the name of its Check to the Probe.
type Probe struct {
	Name string
	Run  func(context.Context) Check
}

// Config says what to check.
type Config struct {
	Probes []Probe
	// Secrets are blotted out wherever they turn up in a Check, as are passwords
	// in URLs. Empty ones do not count.
	Secrets []string
	Timeout time.Duration // of each probe; 0: five seconds
}

// Run lets all probes run at once and returns their checks in the order of
// cfg.Probes, when the last is done.
func Run(ctx context.Context, cfg Config) []Check {
	checks := make([]Check, len(cfg.Probes))
	var running sync.WaitGroup
	for i, p := range cfg.Probes {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, 5*time.Second))
			defer cancel()
			c := p.Run(ctx)
			c.Name, c.Detail, c.Hint = p.Name, blot(c.Detail, cfg.Secrets), blot(c.Hint, cfg.Secrets)
			checks[i] = c
		})
	}
	running.Wait()
	return checks
}

// Failed reports whether any check failed.
func Failed(checks []Check) bool {
	for _, c := range checks {
		if c.Status == Fail {
			return true
		}
	}
	return false
}

var (
	password = regexp.MustCompile(`(://[^/\s:@]*):\S*@`)
	bearer   = regexp.MustCompile(`eyJ[A-Za-z0-9_.-]{8,}`)
)

// blot takes secrets out of a text. Errors of libraries may hold them.
func blot(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	text = password.ReplaceAllString(text, "$1:…@")
	return bearer.ReplaceAllString(text, "…")
}

func ok(detail string) Check         { return Check{Status: OK, Detail: detail} }
func warn(detail, hint string) Check { return Check{Status: Warn, Detail: detail, Hint: hint} }
func fail(detail, hint string) Check { return Check{Status: Fail, Detail: detail, Hint: hint} }

// reason says in a few words why something did not answer.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// took rounds for reading: "42ms", "1.3s".
func took(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(time.Microsecond).String()
	}
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// hintFor returns the hint of the first phrase that the error holds.
func hintFor(err error, hints [][2]string, otherwise string) string {
	text := strings.ToLower(err.Error())
	for _, h := range hints {
		if strings.Contains(text, h[0]) {
			return h[1]
		}
	}
	return otherwise
}
