package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/app/internal/dryrun"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/planner/plan"
)

// The kinds of changes, the worst first.
const (
	approval = "approval" // a call would run that a person had to approve
	fault    = "fault"    // no plan, or a call that cannot run
	do       = "do"       // another call, other entities, one more or one less
	asked    = "asked"    // a person would have to approve what ran without
	tokens   = "tokens"   // the questions to the model grew beyond the limit
	words    = "words"    // something else is said
)

var kinds = []string{approval, fault, do, asked, tokens, words}

// change is something that this build does otherwise.
type change struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// call is a DO of a plan.
type call struct {
	action, entities string
	asks, failed     bool
	fault            string
	reached          bool // it is known what would come of it
}

func (c call) String() string { return c.action + " " + cmp.Or(c.entities, "{}") }

func (c call) same(other call) bool {
	return c.action == other.action && dryrun.SameJSON(cmp.Or(c.entities, "{}"), cmp.Or(other.entities, "{}"))
}

// calls are those of the first plans of a recorded turn.
func (t *recorded) calls(plans int) (all []call) {
	left := slices.Clone(t.Commands)
	asked := t.asksCard
	for i, p := range t.Plans[:min(plans, len(t.Plans))] {
		for j, c := range p.Commands {
			if c.Kind != plan.Do {
				continue
			}
			one := call{action: c.Action, entities: c.Entities}
			at := slices.IndexFunc(left, func(had turnlog.Command) bool {
				return had.Action == c.Action && (had.Plan == 0 || had.Plan == i+1 && had.Number == j+1)
			})
			if at >= 0 {
				had := left[at]
				left = slices.Delete(left, at, at+1)
				one.entities, one.asks, one.failed, one.reached = had.Resolved, had.Approved, had.Result == "failed", true
				if had.Approved {
					asked--
				}
			}
			all = append(all, one)
		}
	}
	for i := 0; i < len(all) && asked > 0; i++ { // nobody has approved it
		if !all[i].reached {
			all[i].asks, all[i].reached = true, true
			asked--
		}
	}
	return all
}

func callsOf(run *dryrun.Run) (all []call) {
	for i, p := range run.Plans {
		var reached []dryrun.Call
		for _, c := range run.Calls {
			if c.Plan == i+1 {
				reached = append(reached, c)
			}
		}
		for j, c := range p.Commands {
			switch {
			case c.Kind != plan.Do:
			case j < len(reached):
				r := reached[j]
				all = append(all, call{action: c.Action, entities: r.Entities, asks: r.Asks, fault: r.Fault, reached: true})
			default:
				all = append(all, call{action: c.Action, entities: plainjson.Text(c.Entities)})
			}
		}
	}
	return all
}

// compare lists what differs, the worst first.
func compare(t *recorded, run *dryrun.Run, failure string) (all []change) {
	add := func(kind, format string, args ...any) { all = append(all, change{kind, fmt.Sprintf(format, args...)}) }
	if failure != "" && t.Outcome != turnlog.Failed {
		add(fault, "there is no plan: %s", failure)
	}
	plans := len(t.Plans)
	if run.Stops != "" || failure != "" { // what came after it cannot be compared
		plans = len(run.Plans)
	}
	was, is := t.calls(plans), callsOf(run)
	var lost, fresh []call
	order := []int{}
	taken := make([]bool, len(was))
	for _, c := range is {
		at := -1
		for i, had := range was {
			if !taken[i] && c.same(had) {
				at = i
				break
			}
		}
		if at < 0 {
			fresh = append(fresh, c)
			continue
		}
		taken[at] = true
		order = append(order, at)
		all = append(all, compareCall(was[at], c, t.partly)...)
	}
	for i, had := range was {
		if !taken[i] {
			lost = append(lost, had)
		}
	}
	for _, c := range fresh {
		at := slices.IndexFunc(lost, func(had call) bool { return had.action == c.action })
		if at < 0 {
			add(do, "new: %s%s", c, wouldAsk(c))
			if c.fault != "" {
				add(fault, "%s: %s", c.action, c.fault)
			}
			continue
		}
		add(do, "other entities: %s became %s", lost[at], cmp.Or(c.entities, "{}"))
		all = append(all, compareCall(lost[at], c, t.partly)...)
		lost = slices.Delete(lost, at, at+1)
	}
	if failure == "" || len(run.Plans) > 0 {
		for _, c := range lost {
			add(do, "lost: %s", c)
		}
	}
	for _, c := range fresh { // perhaps by another name
		at := slices.IndexFunc(lost, func(had call) bool {
			return had.asks && c.reached && !c.asks && dryrun.SameJSON(had.entities, c.entities)
		})
		if at >= 0 && c.fault == "" && !t.partly {
			add(approval, "%s would run without an approval, in place of %s, which needed one", c, lost[at].action)
		}
	}
	if len(all) == 0 && !slices.IsSorted(order) {
		add(do, "the same in another order: %s", join(is))
	}
	if run.Stops == "" && failure == "" && len(t.written) > 0 && t.Outcome != turnlog.Failed {
		before, after := strings.Join(t.written, "\n"), saidIn(run)
		if share := alike(before, after); share < leastAlike {
			before, after = spelling.OneLine(before, maxShown), spelling.OneLine(after, maxShown)
			add(words, "%.0f %% alike: %q became %q", 100*share, before, after)
		}
	}
	slices.SortStableFunc(all, byKind)
	return all
}

func byKind(a, b change) int { return rank(a.Kind) - rank(b.Kind) }

func rank(kind string) int { return slices.Index(kinds, kind) }

func wouldAsk(c call) string {
	if c.asks {
		return ", which asks for approval"
	}
	return ""
}

func join(all []call) string {
	var names []string
	for _, c := range all {
		names = append(names, c.action)
	}
	return strings.Join(names, ", ")
}

// compareCall compares what would come of a call. partly: it is not known what the bot asked.
func compareCall(was, is call, partly bool) (all []change) {
	switch {
	case !is.reached || !was.reached:
	case is.fault != "" && !was.failed:
		all = append(all, change{fault, is.action + ": " + is.fault})
	case partly || is.fault != "":
	case was.asks && !is.asks:
		all = append(all, change{approval, is.String() + " would run without the approval that it needed"})
	case is.asks && !was.asks:
		all = append(all, change{asked, is.String() + " would ask for approval"})
	}
	return all
}

// saidIn is what the bot would say.
func saidIn(run *dryrun.Run) string {
	var all []string
	for _, c := range run.Calls {
		if c.Verdict == dryrun.Said {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

const (
	leastAlike = 0.5 // how much of two texts has to be the same
	maxShown   = 100 // how many characters of a text are shown
)

// alike is the share of words that two texts have in common, in any order, from 0 to 1.
func alike(a, b string) float64 {
	one, other := wordsOf(a), wordsOf(b)
	common, all := 0, 0
	for word, n := range one {
		common += min(n, other[word])
		all += n
	}
	for _, n := range other {
		all += n
	}
	if all == 0 {
		return 1
	}
	return 2 * float64(common) / float64(all)
}

// wordsOf counts the words of a text; where there are no spaces between words, the characters.
func wordsOf(text string) map[string]int {
	all, word := map[string]int{}, ""
	end := func() {
		if word != "" {
			all[word]++
		}
		word = ""
	}
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			all[string(r)]++
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			word += string(r)
		default:
			end()
		}
	}
	end()
	return all
}
