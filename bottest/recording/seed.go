package recording

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/planner/plan"
)

// listsOf are the lists that the turn finds.
func listsOf(t *bot.Turn) []lists.List {
	scope := t.Personal()
	const name = "lists" // of lists.Lists in state
	if scope == nil || !scope.Has(name) {
		return []lists.List{}
	}
	var all lists.Lists
	if raw, err := scope.JSON(name); err != nil || json.Unmarshal(raw, &all) != nil || all.All == nil {
		return []lists.List{}
	}
	return all.All
}

// needsSeed reports whether what is kept before the step's plan has to be known: it has the
// first plan of a scenario.
func (c *conversation) needsSeed(s *step, cfg *Config) bool {
	i := slices.Index(c.steps, s)
	if i < 0 || s.seed != nil {
		return false
	}
	before := conversation{steps: c.steps[:i+1]}
	verdicts := before.verdicts(cfg)
	for ; !before.begins(i, verdicts); i-- {
		if before.steps[i-1].seed != nil {
			return false
		}
	}
	return true
}

// seed puts into the scenario what was kept before the first plan of these steps. A scenario
// keeps neither the order of lists nor what is marked as done: where these matter, a first
// step makes the lists.
func (w *writer) seed(part *scenario.Scenario, steps []*step) {
	i := slices.IndexFunc(steps, func(s *step) bool { return s.seed != nil })
	if i < 0 || len(steps[i].seed) == 0 {
		return
	}
	seed := w.lists(steps[i].seed)
	if !isPlain(seed) && w.mayMake() {
		w.added = true
		for commands := range slices.Chunk(making(seed), atOnce) {
			part.Steps = append(part.Steps, w.makingStep(steps[i], commands))
		}
		return
	}
	part.Seed.Lists = map[string][]string{}
	for _, l := range seed {
		items := []string{}
		for _, item := range l.Items {
			items = append(items, item.Name)
		}
		part.Seed.Lists[l.Name] = items
	}
	if !isPlain(seed) {
		part.Why += " The lists were in another order before, or some of their items were done."
	}
}

// lists are the lists with stand-ins.
func (w *writer) lists(all []lists.List) (out []lists.List) {
	for _, l := range all {
		own := lists.List{Name: w.scrub.Text(l.Name)}
		for _, i := range l.Items {
			own.Items = append(own.Items, lists.Item{Name: w.scrub.Text(i.Name), Done: i.Done})
		}
		out = append(out, own)
	}
	return out
}

// isPlain reports whether a seed says all of the lists.
func isPlain(all []lists.List) bool {
	sorted := slices.IsSortedFunc(all, func(a, b lists.List) int { return strings.Compare(a.Name, b.Name) })
	return sorted && !slices.ContainsFunc(all, func(l lists.List) bool {
		return slices.ContainsFunc(l.Items, func(i lists.Item) bool { return i.Done })
	})
}

// atOnce is how many commands a turn runs that makes lists.
const atOnce = 20 // of the bot's 25

// mayMake reports whether such turns may run, and without asking anybody.
func (w *writer) mayMake() bool {
	o := w.cfg.Options
	return (o.MaxSteps == 0 || o.MaxSteps > atOnce) && !slices.ContainsFunc([]string{"createList", "checkItem"}, func(action string) bool {
		return slices.Contains(o.Approval, action)
	})
}

// making are the commands that make the lists.
func making(all []lists.List) (commands []plan.Command) {
	do := func(action string, entities map[string]any) {
		commands = append(commands, plan.Command{Kind: plan.Do, Action: action, Entities: entities})
	}
	for _, l := range all {
		items := []string{}
		for _, item := range l.Items {
			items = append(items, item.Name)
		}
		do("createList", map[string]any{"list": l.Name, "items": items})
		for _, item := range l.Items {
			if item.Done {
				do("checkItem", map[string]any{"list": l.Name, "item": item.Name})
			}
		}
	}
	return commands
}

// makingStep says to the bot what it keeps, where the step says something to it.
func (w *writer) makingStep(s *step, commands []plan.Command) scenario.Step {
	var out scenario.Step
	out.Event = eventOf(s.activity, w.scrub)
	said := "(What was kept before.)"
	if out.Event.Kind != "" {
		said = mentioned + " " + said
	}
	*out.Event = scenario.Event{Type: "message", Conversation: out.Event.Conversation, Kind: out.Event.Kind, From: out.Event.From, Text: &said}
	text := planText(append(commands, saying([]string{"Kept."})...))
	out.Model = []scenario.Answer{{Text: &text}}
	out.Expect.Note = "It makes the lists that there were before, in their order and with what is done."
	return out
}

// sizeOf is about how many bytes it takes to keep the lists.
func sizeOf(all []lists.List) (n int) {
	for _, l := range all {
		n += len(l.Name)
		for _, i := range l.Items {
			n += len(i.Name) + 1
		}
	}
	return n
}
