package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// ToolsConfig says what a [Tools] is made of: what any planner is, and how the
// model may call, unless the prompt's config.json says so. The zero value of every field of its own is a working default.
type ToolsConfig struct {
	SequenceConfig

	// Choice says whether the model has to call. One that has to, has to in the
	// first round of a turn only: in the others it may also answer.
	Choice models.Choice
	// OneCallAtMost takes one call an answer, and no more.
	OneCallAtMost bool
	// Strict asks the server to hold the model to the schema of each action, as
	// far as the schema can be said in what OpenAI calls strict.
	Strict bool
	// Include are the names of the only actions that are offered. None: all that
	// are not excluded.
	Include []string
	// MaxRounds is how often the model may call in one turn. After that it is
	// asked once more and may not call, so that the person gets an answer. 0: 10.
	MaxRounds int
}

// Tools lets the model call the actions as functions of its own, round by round,
// until it answers with text. A round is a plan like any other: it is checked
// whole before any of it runs. It is safe for concurrent use.
type Tools struct {
	asker asker
	cfg   ToolsConfig
}

// NewTools renders the part of the prompt that is the same for every turn, from
// the prompt "tools", and describes the actions. Every fault of cfg is in the one
// error.
func NewTools(ctx context.Context, cfg ToolsConfig) (*Tools, error) {
	asker, err := newAsker(ctx, prompts.AugmentTools, "", cfg.SequenceConfig, cfg.addTools)
	if err := errors.Join(err, cfg.checkCalls()); err != nil {
		return nil, fmt.Errorf("tools planner: %w", err)
	}
	cfg.MaxRounds = cmp.Or(cfg.MaxRounds, 10)
	return &Tools{asker: asker, cfg: cfg}, nil
}

// addTools describes the actions that the prompt offers. An [Extension] may have left
// out some of those that are included.
func (c *ToolsConfig) addTools(brief *briefing) error {
	include := c.Include
	if extended := brief.tools.offered != nil; extended {
		include = slices.DeleteFunc(slices.Clone(include), func(name string) bool { return !brief.offers(name) })
	}
	if len(c.Include) > 0 && len(include) == 0 {
		brief.tools = toolset{offered: actions.New()}
		return nil
	}
	offered, err := choose(include, brief.offered)
	if err == nil {
		brief.tools, err = newToolset(offered, c.Strict)
	}
	return err
}

// checkCalls lists every fault of the fields that are this planner's own.
func (c *ToolsConfig) checkCalls() error {
	var faults []error
	if !slices.Contains([]models.Choice{models.ChoiceAuto, models.ChoiceRequired, models.ChoiceNone}, c.Choice) {
		faults = append(faults, fmt.Errorf("no Choice %q", c.Choice))
	}
	if c.MaxRounds < 0 {
		faults = append(faults, errors.New("MaxRounds is negative"))
	}
	return errors.Join(faults...)
}

// choose returns the registry of those of the actions that are included.
func choose(include []string, offered *actions.Registry) (*actions.Registry, error) {
	if len(include) == 0 {
		return offered, nil
	}
	included := make([]actions.Offer, len(include))
	for i, name := range include {
		included[i].Name = name
	}
	only, err := offered.Only(included...)
	if err != nil {
		return nil, fmt.Errorf("Include: %w", err)
	}
	return only, nil
}

// Plan asks the model for the next round of the turn: its calls, which it waits
// for, or the text that ends it. Calls that cannot run, and text that is meant to
// be run, are sent back with their faults, at most MaxRepairs times. A model that calls
// though it may not is asked once more, without functions. It fails as [Sequence.Plan]
// does.
func (t *Tools) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	brief, err := t.asker.briefing(ctx, turn)
	if err != nil {
		return plan.Plan{}, err
	}
	request, story, err := t.request(ctx, turn, brief)
	if err != nil {
		return plan.Plan{}, err
	}
	var refused []plan.FaultKind
	for attempt := 0; ; attempt++ {
		answer, err := complete(ctx, turn, brief.model, request)
		if err != nil {
			return plan.Plan{}, err
		}
		round := brief.tools.read(answer, request, turn)
		if round.fault == nil {
			round.plan.Refused = refused
			logPlan(ctx, round.plan, attempt)
			return round.plan, nil
		}
		forbidden := len(answer.Calls) > 0 && !mayCall(request)
		if attempt >= t.asker.cfg.MaxRepairs || forbidden && len(request.Tools) == 0 {
			return plan.Plan{}, after(refused, round.fault)
		}
		refused = append(refused, faultKind(round.fault))
		logRefusal(ctx, round.fault, attempt+1)
		story.refused(answer, round, mayCall(request))
		request.Messages = story.messages
		if forbidden { // the server does not know the wish
			request.Tools = nil
		}
	}
}

// Messages is the prompt of the turn, laid out as that of [Sequence.Messages],
// then each round of the turn as the model made it, with an answer to each call.
// The history shows earlier plans as calls, too. The actions are not in it: they
// travel beside the messages.
func (t *Tools) Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	brief, err := t.asker.briefing(ctx, turn)
	if err != nil {
		return nil, err
	}
	request, _, err := t.request(ctx, turn, brief)
	if err != nil {
		return nil, err
	}
	return request.Messages, nil
}

// noMoreCalls tells the model that its functions are there for show only.
const noMoreCalls = "You cannot call functions any more in this turn. Tell the person what was done, and what was not."

// request is what the model is asked in this round, with the story behind it.
func (t *Tools) request(ctx context.Context, turn *actions.Turn, brief *briefing) (*models.Request, *story, error) {
	request := brief.request(nil)
	request.Tools = brief.tools.tools
	said := &brief.prompt.Config.Completion
	if said.ToolChoice == "" {
		request.Choice = t.cfg.Choice
	}
	if said.ParallelCalls == nil {
		request.OneCallAtMost = t.cfg.OneCallAtMost
	}
	if request.Choice == models.ChoiceRequired && len(turn.Rounds) > 0 {
		request.Choice = models.ChoiceAuto
	}
	if len(turn.Rounds) >= t.cfg.MaxRounds {
		// Servers that know tool_choice refuse calls in the messages of a request
		// without tools; those that do not take them.
		request.Choice = models.ChoiceNone
	}
	opening, err := t.asker.opening(ctx, turn, brief)
	if err != nil {
		return nil, nil, err
	}
	story, err := t.tell(turn, brief, opening, request.Tools)
	if err != nil {
		return nil, nil, err
	}
	request.Messages = story.messages
	return request, story, nil
}

// tell tells the turn, with less of the history where the prompt bounds what the
// model is told: as calls, the history may be longer than it was as plans.
func (t *Tools) tell(turn *actions.Turn, brief *briefing, opening prompts.AssembleInput, tools []models.Tool) (*story, error) {
	budget := brief.prompt.Config.Completion.MaxInputTokens
	reserved := 0
	if budget > 0 {
		reserved = brief.sizeOf(t.story(nil, turn, brief).messages, tools)
	}
	for {
		messages, err := brief.layOut(opening, reserved)
		if err != nil {
			return nil, err
		}
		story := t.story(messages, turn, brief)
		over := brief.sizeOf(story.messages, tools) - budget
		if over <= 0 {
			return story, nil
		}
		reserved += over
	}
}

// story is the rounds of the turn behind what was said before.
func (t *Tools) story(opening []models.Message, turn *actions.Turn, brief *briefing) *story {
	s := newStory(opening)
	for _, round := range turn.Rounds {
		s.round(brief.told(round))
	}
	if len(turn.Rounds) >= t.cfg.MaxRounds {
		s.add(models.Message{Role: models.System, Text: noMoreCalls})
	}
	return s
}

// mayCall reports whether the model may call anything.
func mayCall(r *models.Request) bool { return len(r.Tools) > 0 && r.Choice != models.ChoiceNone }
