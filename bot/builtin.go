package bot

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/privacy"
	"github.com/planbot-go/planbot/bot/signin"
	"github.com/planbot-go/planbot/bot/stop"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// bigTeam is the size above which a team gets no welcome: it would notify everybody (a rule of the
// Teams documentation).
const bigTeam = 100

// builtins are the routes that every bot has, tried after those it registers.
type builtins struct {
	cfg     *Config
	own     *routes
	signIn  *signin.SignIn
	privacy *privacy.Privacy
}

func (b *builtins) routes() []route {
	return []route{
		{botAdded, b.welcome},
		{botRemoved, b.leave},
		{func(t *Turn) bool { return t.Activity.Type == activity.InstallationUpdate }, upgraded},
		{isCommand("help"), b.help},
		{begins("/help"), b.help},
		{begins(stop.Command), b.unlessOff(stop.Command, b.unknown)}, // unless it is off, its feature takes it before any route
		{isCommand(resetCommand), b.unlessOff(resetCommand, b.reset)},
		{begins(resetCommand), b.unlessOff(resetCommand, standsAlone(resetCommand))},
		{isCommand(dataCommand), b.unlessOff(dataCommand, b.privacy.Show)},
		{begins(dataCommand), b.unlessOff(dataCommand, standsAlone(dataCommand))},
		{b.isSignOut, b.unlessOff(signOutCommand, b.signOut)},
		{func(t *Turn) bool { return b.cfg.Memory != nil && begins(memoryCommand)(t) }, b.memories},
		{saysForget, b.unlessOff(forgetCommand, b.privacy.Yes)},
		{begins(forgetCommand), b.unlessOff(forgetCommand, b.privacy.Ask)},
		{privacy.IsClick, b.unlessOff(forgetCommand, b.privacy.Clicked)},
		{func(t *Turn) bool { _, ok := b.own.submittedClick(t); return ok }, b.own.clickedSubmitted},
		{(*Turn).IsSubmit, submitted},
		{func(t *Turn) bool { return !b.cfg.AsksNobody && isCommand(approvalsCommand)(t) }, approvals.Inbox},
		{func(t *Turn) bool { return !b.cfg.AsksNobody && begins(approvals.DelegateCommand)(t) }, func(ctx context.Context, t *Turn) error {
			return approvals.Delegate(ctx, t, b.cfg.Store)
		}},
		{begins(approveCommand), undecided}, // with an id they decide, before any route
		{begins(rejectCommand), undecided},
		{func(t *Turn) bool { return b.cfg.Skills != nil && begins(skillCommand)(t) }, b.skill},
		{isCommand(""), b.help}, // a mention of the bot and nothing else
		{func(t *Turn) bool { return t.IsMessage() && command().MatchString(t.Text) }, b.unknown},
		{(*Turn).IsMessage, nil}, // planned
		{func(t *Turn) bool { return t.Activity.Amends() }, func(context.Context, *Turn) error { return nil }}, // the history follows
	}
}

// greeted marks a conversation that has had its welcome.
type greeted struct {
	Done bool `json:"done,omitzero"`
}

// botAdded reports whether the bot itself was added to the conversation. Teams says so twice, other
// channels once.
func botAdded(t *Turn) bool {
	a := t.Activity
	return a.Type == activity.ConversationUpdate && slices.ContainsFunc(a.MembersAdded, itself(a)) ||
		a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "add")
}

func botRemoved(t *Turn) bool {
	a := t.Activity
	return a.Type == activity.ConversationUpdate && slices.ContainsFunc(a.MembersRemoved, itself(a)) ||
		a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "remove")
}

// itself matches the bot's own account.
func itself(a *activity.Activity) func(activity.Account) bool {
	return func(m activity.Account) bool { return m.ID != "" && m.ID == a.Recipient.ID }
}

// upgraded handles another version of the app: the turn keeps how to reach the conversation, as every
// turn does, and nobody reads anything.
func upgraded(context.Context, *Turn) error { return nil }

// welcome greets a conversation once.
func (b *builtins) welcome(ctx context.Context, t *Turn) error {
	mark := state.Of[greeted](t.Conversation)
	if mark.Done {
		return nil
	}
	mark.Done = true
	if b.inBigTeam(ctx, t.Activity) {
		return nil
	}
	// No markdown: Microsoft's local client does not render it above suggested actions.
	text := t.Translate("Hello, I am %s. Tell me what you need in your own words, or say help to see what I can do.", b.cfg.Name)
	if own := b.cfg.Welcome; own != "" {
		text = t.Translate(texts.Text(strings.ReplaceAll(own, "%", "%%")))
	}
	m := t.Message(text)
	say := b.examples(t)
	if t.Activity.ChannelID == activity.Teams {
		say = say[:min(len(say), maxExamples)]
	}
	m.Suggest(say...)
	return t.Send(ctx, m)
}

const maxExamples = 3 // limits the suggestions that come from actions, and those in Teams

// examples are sentences to start with: those of the config, or else of actions that need no values.
func (b *builtins) examples(t *Turn) []string {
	if b.cfg.Examples != nil {
		return b.cfg.Examples
	}
	var all []string
	for _, a := range b.cfg.Actions.All() {
		if say := a.Phrase(t.Turn); say != "" && !strings.Contains(say, "{") && len(all) < maxExamples {
			all = append(all, titles.Capital(say))
		}
	}
	return all
}

// inBigTeam reports whether a welcome would disturb many people. A team of unknown size gets one.
func (b *builtins) inBigTeam(ctx context.Context, a *activity.Activity) bool {
	team := a.TeamID()
	if a.Conversation.ConversationType != "channel" || team == "" {
		return false
	}
	details, err := b.cfg.Channel.Team(ctx, a.Reference(), team)
	if err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("size of the team unknown")
	}
	return details.Members > bigTeam
}

// leave forgets the welcome, so that the bot greets again when it is added again. If the app itself
// was removed, it deletes what was said.
func (b *builtins) leave(ctx context.Context, t *Turn) error {
	if t.Activity.Type != activity.InstallationUpdate {
		*state.Of[greeted](t.Conversation) = greeted{}
		return t.Removed(ctx)
	}
	if !t.Activity.Conversation.Personal() {
		return b.privacy.ForgetConversation(ctx, t)
	}
	return b.privacy.Forget(ctx, t)
}

// help lists what the bot can do, from the registry.
func (b *builtins) help(ctx context.Context, t *Turn) error {
	m := t.Message(b.helpText(t))
	if t.ShowsCards() {
		m.Attachments = []activity.Attachment{b.helpCard(t, m.Text).Attachment()}
		m.Summary, m.Text = t.Translate("%s can help", b.cfg.Name), ""
	}
	return t.Send(ctx, m)
}

// listedCommand is a command as help lists it.
type listedCommand struct {
	name string
	does texts.Text
}

func (b *builtins) helpText(t *Turn) string {
	var s strings.Builder
	s.WriteString(t.Translate("I am %s. Tell me what you need in your own words. I can use these actions:", b.cfg.Name) + "\n")
	for _, a := range b.cfg.Actions.All() {
		about := t.Translate(texts.Text(a.Description)) // which is written for the model
		if say := a.Phrase(t.Turn); say != "" {
			about = "“" + say + "”"
		}
		s.WriteString("\n- **" + t.Translate(texts.Text(a.Title)) + "**: " + about)
	}
	s.WriteString("\n\n" + t.Translate("Commands:") + "\n" + b.commandList(t))
	return s.String()
}

// command matches what people mean as a command: no path, and no sentence about one.
var command = lazy.Regexp(`^/[\pL\pN_-]{1,32}(\s|$)`)

// unknown tells of the commands that there are. A model might claim to have done one that there is not.
func (b *builtins) unknown(ctx context.Context, t *Turn) error {
	said := t.Translate("I don't know the command %s. Commands:", titles.Code(strings.Fields(t.Text)[0]))
	return t.Tell(ctx, said+"\n"+b.commandList(t))
}

func (b *builtins) commandList(t *Turn) string {
	listed := slices.DeleteFunc([]listedCommand{
		{stop.Command, "stops what I'm doing for you"},
		{resetCommand, "clears our conversation"},
		{dataCommand, "shows what I keep about you, in a personal chat"},
		{memoryCommand, "shows what you asked me to remember, in a personal chat"},
		{forgetCommand, "deletes everything I keep about you"},
		{signOutCommand, "signs you out of other services"},
		{approvalsCommand, "shows the approvals that wait"},
		{approvals.DelegateCommand, "lets somebody else decide your approvals for a while"},
	}, func(c listedCommand) bool {
		switch c.name {
		case approvalsCommand:
			return !b.asks()
		case approvals.DelegateCommand:
			return b.cfg.AsksNobody || !approvals.MayDelegate(t)
		case signOutCommand:
			return !b.signsIn()
		case memoryCommand:
			return b.cfg.Memory == nil
		}
		return slices.Contains(b.cfg.CommandsOff, c.name)
	})
	var s strings.Builder
	list := func(command string, does texts.Text) {
		s.WriteString("\n- **" + command + "**")
		if own := t.Translate(texts.Text(command)); own != command {
			does = texts.Text(own)
		}
		if does != "" {
			s.WriteString(": " + t.Translate(does))
		}
	}
	list("help", "shows this")
	for _, command := range b.own.commands {
		if strings.HasPrefix(command, "/") && command != "/help" && command != skillCommand && !slices.ContainsFunc(listed, func(c listedCommand) bool { return c.name == command }) {
			list(command, "")
		}
	}
	if b.cfg.Skills != nil {
		list(skillCommand, "lists my skills")
	}
	for _, c := range listed {
		list(c.name, c.does)
	}
	return s.String()
}

func (b *builtins) helpCard(t *Turn, text string) activity.Card {
	card := activity.Card{Fallback: text, Body: []any{activity.TextBlock{Text: text}}}
	for _, say := range b.examples(t) {
		card.Actions = append(card.Actions, activity.Button{Title: say, Data: offer{say}})
	}
	return card
}

// offer is the data of such a button.
type offer struct {
	Say string `json:"say"`
}

// submitted handles a click on a button that says something for the person. It ignores any other
// click.
func submitted(ctx context.Context, t *Turn) error {
	var value offer
	if err := json.Unmarshal(t.Activity.Value, &value); err != nil || strings.TrimSpace(value.Say) == "" {
		zerolog.Ctx(ctx).Info().Msg("card click without a route")
		return t.TellAlone(ctx, t.Translate(deadButton))
	}
	t.Text = strings.TrimSpace(value.Say)
	return t.Plan(ctx)
}

// reset clears the conversation. The person's own data, such as lists, stays.
func (b *builtins) reset(ctx context.Context, t *Turn) error {
	t.Thread.Remove(new(prompts.History).StateName()) // even if it cannot be read
	if b.cfg.Skills != nil {
		b.cfg.Skills.Reset(t.Turn)
	}
	b.cfg.Actions.Reset(t.Turn)
	if err := turn.Here(t).ForgetFiles(ctx, t.Conversation); err != nil {
		return err
	}
	if err := b.privacy.ForgetApprovals(ctx, t); err != nil {
		return err
	}
	return t.Tell(ctx, t.Translate("I've cleared our conversation. Everything else that I keep for you is still here."))
}

// standsAlone says that nothing may follow a command. A model might claim to have done it.
func standsAlone(command string) Handler {
	return func(ctx context.Context, t *Turn) error {
		return t.Tell(ctx, t.Translate("I did nothing. Say %s with nothing after it.", "**"+command+"**"))
	}
}

const (
	approveCommand   = "/approve"
	rejectCommand    = "/reject"
	approvalsCommand = "/approvals"
)

// asks reports whether the bot is known to ask for approvals. A policy may do so, too.
func (b *builtins) asks() bool {
	needs := len(b.cfg.Approvers) > 0
	for _, a := range b.cfg.Actions.All() {
		needs = needs || a.Approval
	}
	return needs && !b.cfg.AsksNobody
}

// undecided handles a decision that does not say about what.
func undecided(ctx context.Context, t *Turn) error {
	return t.Tell(ctx, t.Translate("I did nothing. Say %s or %s, with the id from my question.", "**"+approveCommand+" ID**", "**"+rejectCommand+" ID**"))
}

// The built-in commands that [Config.CommandsOff] may name.
const (
	resetCommand   = "/reset"
	dataCommand    = "/mydata"
	forgetCommand  = privacy.ForgetCommand
	signOutCommand = "/signout"
)

// saysForget matches the command with its yes.
func saysForget(t *Turn) bool {
	words, _ := commandWords(t, forgetCommand)
	return strings.EqualFold(words, "yes")
}

func (b *builtins) signsIn() bool { return len(b.cfg.Actions.Connections()) > 0 }

func (b *builtins) isSignOut(t *Turn) bool { return isCommand(signOutCommand)(t) && b.signsIn() }

func (b *builtins) signOut(ctx context.Context, t *Turn) error {
	if err := b.signIn.Out(ctx, t); err != nil {
		zerolog.Ctx(ctx).Error().Err(err).Msg("the person could not be signed out")
		return t.Tell(ctx, t.Translate("Sorry, I couldn't sign you out just now. Please try again in a minute."))
	}
	return t.Tell(ctx, t.Translate("I've signed you out."))
}

// unlessOff is the handler of a command that may be switched off. No model sees the command then:
// it might claim to have done it.
func (b *builtins) unlessOff(command string, h Handler) Handler {
	if !slices.Contains(b.cfg.CommandsOff, command) {
		return h
	}
	return func(ctx context.Context, t *Turn) error {
		return t.Tell(ctx, t.Translate("%s is switched off here.", command))
	}
}

const memoryCommand = "/memory" // there with [Config.Memory]

// memories shows what is remembered about the person, or forgets some of it.
func (b *builtins) memories(ctx context.Context, t *Turn) error {
	words, _ := commandWords(t, memoryCommand)
	return t.Tell(ctx, b.cfg.Memory.Command(t.Turn, words))
}

const skillCommand = "/skill"

// skill runs a person's /skill command. If the skill still has work to do, the planner plans for
// it.
func (b *builtins) skill(ctx context.Context, t *Turn) error {
	words := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(t.Text), strings.Fields(t.Text)[0]))
	reply, rest, err := b.cfg.Skills.Command(ctx, t.Turn, words)
	if err != nil {
		return err
	}
	if rest == "" {
		return t.Tell(ctx, reply)
	}
	t.Text = rest
	return t.Plan(ctx)
}

// planned is the default route: the planner answers.
func planned(ctx context.Context, t *Turn) error { return t.Plan(ctx) }
