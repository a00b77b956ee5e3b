package models

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The reminder actions of the default bot.
const (
	remindMe       = "remindMe"
	listReminders  = "listReminders"
	cancelReminder = "cancelReminder"
)

const (
	inForm  = `in\s+(?:about\s+)?(?P<n>an?|one|half\s+an|a\s+quarter\s+of\s+an|\d+(?:[.,]\d+)?)\s*(?P<unit>minutes?|mins?|m|hours?|hrs?|h|days?|weeks?)`
	dayForm = `today|tomorrow|(?:on\s+)?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)`
	atForm  = `(?:(?P<day>` + dayForm + `)\s+)?at\s+(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\.?)?(?:\s+(?P<later>` + dayForm + `))?`
)

var (
	reminding = lazy(`(?is)^(?:remind\s+(?:me|us)|(?:set|create|add|make)(?:\s+me)?\s+a\s+reminder(?:\s+for\s+me)?)\b[\s,:]*(.*)$`)
	timeFirst = lazy(`(?is)^(?:` + inForm + `|` + atForm + `)\b[\s,:.]+(?P<what>.+)$`)
	timeLast  = lazy(`(?is)^(?P<what>.+?)[\s,]+(?:` + inForm + `|` + atForm + `)$`)
	timeOnly  = lazy(`(?is)^(?:` + inForm + `|` + atForm + `)$`)
	aboutWhat = lazy(`(?i)^(?:to|about|of|that|for)\s+`)

	askReminders = lazy(`(?i)^(?:(?:show|list|read|display|see|tell|give|what|what's|which|do|are)\s+(?:\S+\s+){0,5})?(?:my |our |all |the )*reminders?(?:\s+(?:do i have|are there|are set|have i|i have))?$`)
	dropReminder = lazy(`(?i)^(?:cancel|delete|remove|drop|stop|forget)\s+(?:my\s+|the\s+|that\s+)?(?:reminder\s*(?P<id>.*)|(?P<what>.+)\s+reminder)$`)

	clockLine = lazy(`(?m)^(\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d\d:\d\d), `)
)

const whenToRemind = "When shall I remind you? Say for example: remind me in 10 minutes to drink water, or at 15:30."

// readReminder reads a message that is about reminders as a whole. Now is what the
// prompt says.
func readReminder(text string, now time.Time) (deeds []deed, ask string) {
	if len(text) > maxOfflineText {
		return nil, ""
	}
	text = trimClause(plainQuotes.Replace(text))
	if m := reminding().FindStringSubmatch(text); m != nil {
		return remind(m[1], now)
	}
	if askReminders().MatchString(text) {
		return []deed{{action: listReminders, given: map[string]any{}, plain: true}}, ""
	}
	if m := match(dropReminder, text); m != nil {
		which := strings.Trim(aboutWhat().ReplaceAllString(m["id"]+m["what"], ""), ` "'#`)
		if which == "" {
			return nil, "Which reminder do you mean? Please say it with its id; \"list my reminders\" shows them."
		}
		return []deed{{action: cancelReminder, given: map[string]any{"reminder": which}, plain: true}}, ""
	}
	return nil, ""
}

// remind reads what stands behind "remind me".
func remind(rest string, now time.Time) ([]deed, string) {
	m := match(timeFirst, rest)
	if m == nil {
		m = match(timeLast, rest)
	}
	switch {
	case timeOnly().MatchString(rest):
		return nil, "What shall I remind you of? Say for example: remind me in 10 minutes to drink water."
	case m == nil:
		return nil, whenToRemind
	}
	d := deed{action: remindMe, plain: true, given: map[string]any{
		"what": strings.Trim(aboutWhat().ReplaceAllString(strings.TrimSpace(m["what"]), ""), ` "`),
	}}
	if minutes := minutesOf(m["n"], m["unit"]); minutes > 0 {
		d.given["in_minutes"] = minutes
	} else if at, ok := clockTime(m, now); ok {
		d.given["at"] = at.Format(time.RFC3339)
	} else {
		return nil, whenToRemind
	}
	return []deed{d}, ""
}

// minutesOf is how many minutes so many of a unit are.
func minutesOf(n, unit string) float64 {
	number, err := strconv.ParseFloat(strings.ReplaceAll(n, ",", "."), 64)
	switch words := strings.Fields(strings.ToLower(n)); {
	case err == nil || len(words) == 0:
	case words[0] == "half":
		number = 0.5
	case len(words) > 1:
		number = 0.25
	default:
		number = 1
	}
	switch (strings.ToLower(unit) + " ")[0] {
	case 'h':
		return number * 60
	case 'd':
		return number * 60 * 24
	case 'w':
		return number * 60 * 24 * 7
	}
	return number
}

// clockTime is the next time on the clock that was named. It is false where the
// prompt does not say what time it is, or there is no such time.
func clockTime(m map[string]string, now time.Time) (at time.Time, ok bool) {
	hour, err := strconv.Atoi(m["hour"])
	if err != nil || now.IsZero() {
		return at, false
	}
	minute, _ := strconv.Atoi(m["minute"]) // "": on the hour
	half := strings.ToLower(m["half"])
	if half != "" && (hour < 1 || hour > 12) || hour > 23 || minute > 59 {
		return at, false
	}
	if half != "" {
		hour %= 12
	}
	if strings.HasPrefix(half, "p") {
		hour += 12
	}
	day := strings.ToLower(m["day"] + m["later"])
	at = time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, now.Location())
	for i := range 8 {
		next := at.AddDate(0, 0, i)
		switch {
		case day == "tomorrow" && i != 1, day == "today" && i != 0, strings.HasSuffix(day, "day") && !namesDay(day, next), !next.After(now):
			continue
		}
		return next, true
	}
	return at, false
}

// namesDay reports whether the word is that of the day's name, or no day's.
func namesDay(word string, day time.Time) bool {
	return word == "today" || strings.HasSuffix(word, strings.ToLower(day.Weekday().String()))
}

// match returns the named groups that took part, nil when the form does not match.
func match(form pattern, text string) map[string]string {
	m := form().FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	groups := map[string]string{}
	for i, name := range form().SubexpNames() {
		groups[name] += m[i]
	}
	return groups
}

// clock is what time it is, as the newest message of the prompt says. Zero: none says.
func clock(req *Request) time.Time {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role != System {
			continue
		}
		if found := clockLine().FindStringSubmatch(m.Text); found != nil {
			if now, err := time.Parse("2006-01-02 15:04 -07:00", found[1]); err == nil {
				return now
			}
		}
	}
	return time.Time{}
}
