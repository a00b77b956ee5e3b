package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/state"
)

// goOn goes on from a turn: it copies what the bot kept before or after it into a new conversation.
type goOn struct{ page *Page }

// notCopied are values that are about the old conversation and nothing else: how to reach it, and what
// waits in it.
var notCopied = []string{"reference", "home", "approvals", "sentnotices", "targetedcards"}

func (g goOn) begin(w http.ResponseWriter, r *http.Request) {
	rec, ok := g.page.turns.Turn(r.PathValue("id"))
	if !ok {
		g.page.fail(w, http.StatusNotFound, "There is no turn "+r.PathValue("id")+" here. The page keeps the last ones, for as long as the bot runs.")
		return
	}
	from, before := rec.After, r.PostFormValue("at") == "before"
	if before {
		from = rec.Before
	}
	a, err := activity.Decode(rec.Received.Activity)
	switch {
	case err != nil || len(rec.Received.Activity) == 0:
		g.page.fail(w, http.StatusConflict, "This turn answers no message, so there is no conversation to go on with.")
		return
	case from == nil:
		g.page.fail(w, http.StatusConflict, "This turn has not begun, so there is no state to copy.")
		return
	case !before && rec.Outcome == turnlog.Running:
		g.page.fail(w, http.StatusConflict, "This turn is not over. Go on from before it, or wait.")
		return
	}
	room, err := g.copy(r.Context(), a, rec, from, before)
	if err != nil {
		g.page.cfg.Log.Warn().Err(err).Str("turn", rec.ID).Msg("a conversation was not copied")
		g.page.fail(w, http.StatusConflict, "The conversation was not copied: "+whyNotCopied(err)+".")
		return
	}
	g.page.hub.tell(event{Room: room.Key})
	http.Redirect(w, r, "/dev/?"+url.Values{"room": {room.Key}, "thread": {thread(a.Conversation.ID)}}.Encode(), http.StatusSeeOther)
}

// whyNotCopied is the reason for people.
func whyNotCopied(err error) string {
	switch {
	case errors.Is(err, errTooMany), errors.Is(err, errLeftOut):
		return err.Error()
	case errors.Is(err, state.ErrTooLarge):
		return "what the bot keeps is too large"
	}
	return "the bot's state cannot be written now"
}

// errLeftOut says that the page has not kept a value, since it is too large.
var errLeftOut = errors.New("the page has not kept all of it, since some of it is too large")

// copy writes the documents under the ids of a new conversation, and then shows it.
func (g goOn) copy(ctx context.Context, a *activity.Activity, rec turnlog.Record, from turn.State, before bool) (*room, error) {
	until := rec.At
	if !before {
		until = until.Add(rec.WaitedNS + rec.TookNS)
	}
	next, ids, err := g.page.chat.copied(a, until, before)
	if err != nil {
		return nil, err
	}
	who := slices.IndexFunc(next.People, func(p person) bool { return p.ID == ids[a.From.ID] })
	docs := map[string]state.Key{
		"conversation": state.ConversationKey(activity.Teams, botAccount, next.ID),
		"user":         state.UserKey(activity.Teams, botAccount, next.People[max(who, 0)].ID),
	}
	if id := thread(a.Conversation.ID); id != "" {
		docs["thread"] = state.ConversationKey(activity.Teams, botAccount, next.ID+";messageid="+id)
	}
	var pairs []string
	for old, new := range ids {
		pairs = append(pairs, old, new)
	}
	renamed := strings.NewReplacer(pairs...)
	for scope, key := range docs {
		values := map[string]jsontext.Value{}
		for name, raw := range from[scope] {
			if slices.Contains(notCopied, name) {
				continue
			}
			if strings.HasPrefix(string(raw), `"[left out: `) {
				return nil, fmt.Errorf("%w: %s.%s", errLeftOut, scope, name)
			}
			values[name] = jsontext.Value(renamed.Replace(string(raw)))
		}
		if len(values) == 0 {
			continue
		}
		err := g.page.of.Bot.Store().Update(ctx, key, func(s *state.Scope) error {
			for name, raw := range values {
				*state.At[jsontext.Value](s, name) = raw
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("copy the %s: %w", scope, err)
		}
	}
	return next, g.page.chat.open(next)
}
