package skills

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner"
)

// view is the skills that a turn may use, with what models are told of them. It does not
// change: turns with the same skills have the same view.
type view struct {
	list   []*Skill // as the source gave it
	skills []*Skill // by name, of each name one
	names  []string // of skills
	cut    int      // how long descriptions are, -1: as long as they were written
	extra  planner.Extra
	offers map[string]actions.Offer // of the tools; none when there are no skills
	told   []func() string          // content of skills
	loaded map[string]int           // what load_skill answers -> index in skills
}

func newView(list []*Skill, offered func(*Skill) *Skill, template string, budget int) (*view, error) {
	v := &view{list: slices.Clone(list), skills: distinct(list), cut: -1, offers: map[string]actions.Offer{}, loaded: map[string]int{}}
	var all []*Skill
	for i, s := range v.skills {
		v.names = append(v.names, s.Name)
		all = append(all, offered(s))
		v.told = append(v.told, sync.OnceValue(func() string { return told(all[i]) }))
		v.loaded[loadedText(s.Name)] = i
	}
	v.extra = planner.Extra{Offer: v.offer, Tell: v.tell}
	key := sha256.New()
	if len(v.skills) > 0 {
		var lines string
		lines, v.cut = catalogue(slices.DeleteFunc(slices.Clone(all), forPeople), budget)
		v.extra.Text = strings.ReplaceAll(template, placeholder, lines)
		v.offers = offersFor(all)
		if err := json.NewEncoder(key).Encode([]any{v.extra.Text, v.offers}); err != nil {
			return nil, fmt.Errorf("describe the skills: %w", err)
		}
	}
	v.extra.Key = "skills " + hex.EncodeToString(key.Sum(nil)[:16])
	return v, nil
}

// distinct is the list sorted by name. Of names that differ in case at most, which no
// model could tell apart, the first stays.
func distinct(list []*Skill) []*Skill {
	seen := make(map[string]bool, len(list))
	kept := slices.DeleteFunc(slices.Clone(list), func(s *Skill) bool {
		folded := strings.ToLower(s.Name)
		twice := seen[folded]
		seen[folded] = true
		return twice
	})
	slices.SortFunc(kept, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	return kept
}

// offer describes the tools of the turn in place of what is registered of them. Without
// skills there are none.
func (v *view) offer(all *actions.Registry) (*actions.Registry, error) {
	var offers []actions.Offer
	for _, a := range all.All() {
		o, ours := v.offers[a.Name]
		if !ours {
			o = actions.Offer{Name: a.Name}
		}
		if ours || !isTool(a.Name) {
			offers = append(offers, o)
		}
	}
	return all.Only(offers...)
}

// pinned is the content of the loaded skills that this turn may use, but for those that it
// has loaded itself: they are told where that was done.
func (v *view) pinned(turn *actions.Turn, t *topics) []string {
	var contents []string
	for _, l := range t.Loaded {
		if i, ok := slices.BinarySearch(v.names, l.Skill); ok && !v.loadedIn(turn, i) {
			contents = append(contents, v.told[i]())
		}
	}
	return contents
}

func (v *view) loadedIn(turn *actions.Turn, skill int) bool {
	for _, round := range turn.Rounds {
		for i := range round.Outcomes {
			if which, ok := v.loadedBy(&round.Outcomes[i]); ok && which == skill {
				return true
			}
		}
	}
	return false
}

// loadedBy is the skill that a command has loaded.
func (v *view) loadedBy(o *actions.Outcome) (skill int, ok bool) {
	if o.Action != LoadSkill || o.Failed {
		return 0, false
	}
	skill, ok = v.loaded[o.Text]
	return skill, ok
}

// tell puts the content of a skill in the place of what load_skill has answered. A skill
// that was taken away since then says nothing any more.
func (v *view) tell(o actions.Outcome) (string, bool) {
	if i, ok := v.loadedBy(&o); ok {
		return v.told[i](), true
	}
	if o.Action == LoadSkill && !o.Failed && strings.HasPrefix(o.Text, loadedPrefix) {
		return "The skill is not available any more.", true
	}
	return "", false
}

const loadedPrefix = "Loaded the skill "

// loadedText is the result of load_skill: what it has loaded is told from the source.
func loadedText(name string) string { return loadedPrefix + inLine(name) + "." }

// has says that the turn has the skill of exactly that name.
func (v *view) has(name string) bool {
	_, ok := slices.BinarySearch(v.names, name)
	return ok
}

// tooLong says that one more skill would be too much beside those that are loaded.
func (v *view) tooLong(t *topics, name string) bool {
	if len(t.Loaded) == 0 || t.has(name) {
		return false
	}
	others, bytes := 0, 0
	for i, n := range v.names {
		if loaded := t.has(n); loaded || n == name {
			bytes += len(v.told[i]())
			if loaded {
				others++
			}
		}
	}
	return others > 0 && bytes > maxTold
}

// skill finds the skill that a model means. fault is what is wrong, "" for nothing.
func (v *view) skill(name string) (found int, fault string) {
	if strings.TrimSpace(name) == "" {
		return -1, "Skill name cannot be empty."
	}
	if found = find(name, v.names); found < 0 {
		fault = "Skill '" + clip(name) + "' not found." + didYouMean(name, v.names)
	}
	return found, fault
}

// keptViews is how many views are kept. Each differs in which skills somebody may use.
const keptViews = 64

// views are the views that were used last, so that nothing is rendered twice.
type views struct {
	mu     sync.Mutex
	recent []*view // the newest first
}

// of is the view of a list, made by make when it is new.
func (vs *views) of(list []*Skill, make func([]*Skill) (*view, error)) (*view, error) {
	if v := vs.find(list); v != nil {
		return v, nil
	}
	v, err := make(list) // others go on meanwhile
	if err != nil {
		return nil, err
	}
	if other := vs.find(list); other != nil { // one of them made it too
		return other, nil
	}
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.recent = slices.Insert(vs.recent[:min(len(vs.recent), keptViews-1)], 0, v)
	return v, nil
}

// find returns the view of a list and puts it first, nil for a new one.
func (vs *views) find(list []*Skill) *view {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	at := slices.IndexFunc(vs.recent, func(v *view) bool { return slices.Equal(v.list, list) })
	if at < 0 {
		return nil
	}
	found := vs.recent[at]
	copy(vs.recent[1:at+1], vs.recent[:at])
	vs.recent[0] = found
	return found
}
