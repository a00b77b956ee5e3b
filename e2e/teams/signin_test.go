package teams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

func init() {
	needsToken = actions.NeedsToken
	hasToken = func(ctx context.Context, t *bot.Turn, connection string) (bool, error) {
		_, err := t.UserToken(ctx, connection)
		if errors.Is(err, connector.ErrNoUserToken) {
			return false, nil
		}
		return err == nil, err
	}
	preparers["signins"] = prepareSignIns
	looks = append(looks, countSignIns)
}

// pendingSignIn is somebody who was asked to sign in.
type pendingSignIn struct {
	Connection   string `json:"connection"`
	Person       string `json:"person"`
	Conversation string `json:"conversation"`
	Exchange     string `json:"exchange"`
	AgeMS        int    `json:"age_ms"`
	Plan         string `json:"plan"`
	SSO          bool   `json:"sso"`
}

// prepareSignIns has people ask for what they have to sign in for.
func prepareSignIns(p *played, kit *bottest.Kit, g given, state json.RawMessage) {
	var all []pendingSignIn
	if err := json.Unmarshal(state, &all); err != nil {
		p.faults = append(p.faults, "given.state.signins: "+err.Error())
		return
	}
	kinds := map[string]string{"personal": "personal", "group": "groupChat", "meeting": "groupChat", "channel": "channel"}
	rules := p.rules
	slices.SortStableFunc(all, func(a, b pendingSignIn) int { return b.AgeMS - a.AgeMS })
	for i, s := range all {
		resource := map[string]any{"signInLink": "https://token.botframework.com/api/oauth/signin?signin=before"}
		if s.Exchange != "" || s.SSO {
			id := s.Exchange
			if id == "" {
				id = fmt.Sprint("ex-before-", i)
			}
			resource["tokenExchangeResource"] = map[string]any{"id": id, "uri": "api://botid-1"}
		}
		none, link := &rule{to: toToken, Status: 404}, &rule{to: toToken, Status: 200, Body: resource}
		none.Match.Path, link.Match.Path = "/api/usertoken/GetToken", "/api/botsignin/GetSignInResource"
		p.mu.Lock()
		p.rules = []*rule{none, link}
		p.mu.Unlock()
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: s.Plan}, true
		})
		bot := map[string]any{"id": "28:bot", "name": "Planbot"}
		post(kit, map[string]any{
			"type": "message", "id": fmt.Sprint("before-", i), "channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/",
			"from": map[string]any{"id": s.Person, "name": strings.TrimPrefix(s.Person, "29:")}, "recipient": bot,
			"conversation": map[string]any{"id": s.Conversation, "conversationType": kinds[g.Scope], "isGroup": g.Scope != "personal", "tenantId": "t-1"},
			"channelData":  map[string]any{"tenant": map[string]any{"id": "t-1"}},
			"text":         "<at>Planbot</at> please", "entities": []any{map[string]any{"type": "mention", "mentioned": bot, "text": "<at>Planbot</at>"}},
		})
		kit.Settle()
		next := 0
		if i+1 < len(all) {
			next = all[i+1].AgeMS
		}
		time.Sleep(ms(s.AgeMS - next))
	}
	p.mu.Lock()
	p.rules = rules
	p.mu.Unlock()
}

// countSignIns counts the people's sign-ins that wait.
func countSignIns(p *played, e expect) {
	if e.PendingSignins == nil {
		return // the question would count as something that was stored
	}
	in, err := inbox.Open(p.store, inbox.Config{})
	if err != nil {
		p.faults = append(p.faults, err.Error())
		return
	}
	defer in.Close()
	ids := slices.Clone(p.ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		base, _, _ := strings.Cut(id, ";")
		all, err := in.Waiting(context.Background(), state.ConversationKey("msteams", "28:bot", base))
		if err != nil {
			p.faults = append(p.faults, err.Error())
		}
		for _, w := range all {
			if strings.Contains(string(w.About), `"for":"sign_in"`) {
				p.signins++
			}
		}
	}
}
