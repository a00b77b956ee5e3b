package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	clockOff   = 30 * time.Second // worth telling
	clockWrong = 5 * time.Minute  // as much as the checks of tokens forgive
)

// Clock compares now with the date that the server at url writes into its
// answers. An empty url is the local mode, in which no token has to be judged.
// rt may be nil.
func Clock(url string, rt http.RoundTripper, now func() time.Time) Probe {
	return Probe{"clock", func(ctx context.Context) Check { return clock(ctx, url, rt, now) }}
}

func clock(ctx context.Context, url string, rt http.RoundTripper, now func() time.Time) Check {
	if url == "" {
		return ok("it is " + now().UTC().Format(time.RFC3339) + "; local mode asks no server for the time")
	}
	off, err := clockOffset(ctx, url, rt, now)
	if err != nil {
		return warn("it is "+now().UTC().Format(time.RFC3339)+", but no server could be asked whether that is right: "+reason(err), "")
	}
	const hint = "let the machine set its clock by itself (timedatectl set-ntp true, or the settings of the virtual machine)"
	switch detail := fmt.Sprintf("it differs by %s from the clock of %s", took(off), url); {
	case off > clockWrong:
		return fail(detail+"; tokens have a time in them, and more than 5 minutes makes them invalid", hint)
	case off > clockOff:
		return warn(detail, hint)
	}
	return ok("it agrees with the clock of " + url)
}

// clockOffset is how far apart the clocks are, beyond what the way there and
// back explains. A date has whole seconds, so it is good to a second.
func clockOffset(ctx context.Context, url string, rt http.RoundTripper, now func() time.Time) (time.Duration, error) {
	before := now()
	resp, err := get(ctx, rt, url)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // only its header counts
	after := now()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("%s tells no time", url)
	}
	return max(before.Sub(date), date.Sub(after), 0), nil
}
