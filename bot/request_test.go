package bot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/mcp/server"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/planner"
)

// agents is a bot that other agents reach as an MCP server.
type agents struct {
	*bottest.Kit
	log logBuffer

	mu     sync.Mutex
	bot    *bot.Bot
	server *server.Server
	ran    []string
}

func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// testAgents runs f with a bot whose tools are look and, after an approval, wipe.
func testAgents(t *testing.T, f func(t *testing.T, s *agents), policy ...actions.Policy) {
	t.Helper()
	t.Parallel()
	s := &agents{}
	cfg := bottest.Config{Log: &s.log}
	cfg.New = func(ctx context.Context, parts bottest.Parts) (b *bot.Bot, err error) {
		acts := actions.New()
		type in struct {
			Where string `json:"where"`
		}
		add := func(name string, opts ...actions.Option) {
			actions.Add(acts, name, "Does it", func(_ context.Context, turn *actions.Turn, in in) (actions.Result, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ran = append(s.ran, name+" "+in.Where+" for "+turn.Activity.From.ID+" "+turn.Activity.From.AadObjectID)
				if in.Where == "nowhere" {
					return actions.Fail("there is no such place"), nil
				}
				if in.Where == "everywhere" {
					return actions.Text("%s", strings.Repeat("\"", 20<<10)), nil // twice as long in JSON
				}
				return actions.Text("did it"), nil
			}, opts...)
		}
		add("look")
		add("wipe", actions.NeedsApproval)
		add("hidden")
		c := parts.Bot
		c.Actions, c.Requests = acts, true
		for _, own := range policy {
			c.Policy = own
		}
		if c.Planner, err = parts.Planner(ctx, "", planner.Config{Actions: acts}); err != nil {
			return nil, err
		}
		if b, err = bot.New(c); err != nil {
			return nil, err
		}
		made, err := server.New(server.Config{
			Bot: b, Actions: acts, Exposed: []string{"look", "wipe"}, Resource: "http://localhost/mcp", Wait: 2 * time.Second,
			Tokens: []server.Token{
				{Name: "Coder", SHA256: digest("mia-1"), Tenant: "tenant-1", Person: "aad-Mia"},
				{Name: "Other", SHA256: digest("mia-2"), Tenant: "tenant-1", Person: "aad-Mia"},
				{Name: "Ben's", SHA256: digest("ben"), Tenant: "tenant-1", Person: "aad-Ben"},
			},
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bot, s.server = b, made
		return b, err
	}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		s.Kit = kit
		f(t, s)
	})
}

// came is what the caller of a tool reads.
type came struct {
	ID, Status, Text string
	IsError          bool
}

// call calls a tool with that token, as any client could.
func (s *agents) call(t *testing.T, token, tool string, arguments map[string]any) (c came) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	must(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	w := httptest.NewRecorder()
	s.mu.Lock()
	h := s.server
	s.mu.Unlock()
	h.ServeHTTP(w, r)
	var answer struct {
		Result struct {
			IsError    bool `json:"isError"`
			Structured came `json:"structuredContent"`
			Content    []struct{ Text string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || len(answer.Result.Content) != 1 {
		t.Fatalf("%s was answered with %d %s, %v", tool, w.Code, w.Body, err)
	}
	c = answer.Result.Structured
	c.IsError = answer.Result.IsError
	if c.Status == "" {
		c.Text = answer.Result.Content[0].Text
	}
	return c
}

// meet has Mia write to the bot, which then knows her account.
func (s *agents) meet() *bottest.Chat {
	chat := s.Personal("Mia")
	s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`)
	chat.Say("hello")
	chat.Expect("Hello.")
	s.Settle()
	return chat
}

func TestAgentAsksAPerson(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		question := map[string]any{"question": "Which branch?", "choices": []string{"main", "next"}, "minutes": 5}
		if got := s.call(t, "mia-1", "ask_person", question); !got.IsError || !strings.Contains(got.Text, "no conversation") {
			t.Errorf("before she has written: %+v", got)
		}
		chat := s.meet()
		asked := s.call(t, "mia-1", "ask_person", question)
		if asked.Status != "pending" || asked.ID == "" || asked.IsError {
			t.Fatalf("asked: %+v", asked)
		}
		card := chat.ExpectCard("Which branch?", "The program Coder asks for this on your behalf.")
		s.Kill(1)
		s.Restart()
		if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": asked.ID}); got.Status != "pending" {
			t.Errorf("after a restart: %+v", got)
		}
		card.Press("Send", "f0", "next")
		s.Settle()
		if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": asked.ID}); got.Status != "done" || got.Text != `{"decision":"answered","answer":"next"}` {
			t.Errorf("answered: %+v", got)
		}
		for _, token := range []string{"mia-2", "ben"} { // another program of hers, and somebody else
			if got := s.call(t, token, "get_answer", map[string]any{"id": asked.ID}); !got.IsError || !strings.Contains(got.Text, "you have no such request") {
				t.Errorf("%s got %+v", token, got)
			}
		}
		chat.ExpectNothing()
		time.Sleep(25 * time.Hour)
		if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": asked.ID}); !strings.Contains(got.Text, "already gone") {
			t.Errorf("after a day: %+v", got)
		}
	})
}

func TestAgentRequestsApproval(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		chat := s.meet()
		for button, want := range map[string]string{"Approve": `{"decision":"approved"}`, "Reject": `{"decision":"rejected"}`, "": `{"decision":"unanswered"}`} {
			asked := s.call(t, "mia-1", "request_approval", map[string]any{"what": "Deploy 1.2", "details": "To *production*", "minutes": 5})
			card := chat.ExpectCard("I need your approval.", "The program Coder asks for this on your behalf.", "Deploy 1.2", "To *production*")
			if button == "" {
				time.Sleep(7 * time.Minute)
			} else {
				card.Press(button)
			}
			s.Settle()
			if got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID, "seconds": 5}); got.Status != "done" || got.Text != want {
				t.Errorf("%s: %+v", button, got)
			}
		}
		chat.ExpectNothing()
	})
}

// TestAgentRequestsApprovalOfOthers: the policy says whose approval it needs, and how many. They read for whom the program
// asks, and whose token it has lets it ask them.
func TestAgentRequestsApprovalOfOthers(t *testing.T) {
	policy := func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if call.Action.Name != server.RequestApproval {
			return actions.DefaultPolicy(ctx, turn, call)
		}
		return actions.Approval{
			Required: true, Approvers: []string{"aad-Ben"}, Quorum: 2, Delegation: true, Within: time.Hour,
			Escalate: []actions.Escalation{{After: 10 * time.Minute, To: []string{"aad-Carla"}}},
		}, nil
	}
	testAgents(t, func(t *testing.T, s *agents) {
		chat, ben, carla, emil := s.meet(), s.Personal("Ben"), s.Personal("Carla"), s.Personal("Emil")
		delegate(t, s.Kit, ben, "Emil")
		for want, end := range map[string]func(){
			`{"decision":"approved"}`: func() {
				emil.Approve()
				chat.Expect("Emil (for Ben) approved this. It needs 2 approvals.")
				time.Sleep(11 * time.Minute)
				carla.ExpectCard("Deploy 1.2")
				chat.Expect("It needs more approvals, so I've also asked Carla.")
				carla.Approve()
			},
			`{"decision":"rejected"}`: func() {
				ben.Say("/approvals")
				ben.ExpectCard("The program Coder asks for this on behalf of mia.")
				ben.Next()
				ben.Reject()
				chat.Expect("OK, I won't do this: Give an approval.")
			},
			`{"decision":"unanswered"}`: func() {
				time.Sleep(2 * time.Hour)
				chat.ExpectMatch("also asked Carla")
				carla.ExpectCard("Deploy 1.2")
			},
		} {
			asked := s.call(t, "mia-1", "request_approval", map[string]any{"what": "Deploy 1.2", "details": "To *production*"})
			chat.ExpectCard("May I ask Ben, Emil (for Ben until", "Deploy 1.2", "The program Coder asks for this on your behalf.").Press("Send")
			ben.ExpectCard("Deploy 1.2", "To *production*", "The program Coder asks for this on behalf of mia.")
			emil.ExpectCard("Emil decides this for Ben", "The program Coder asks for this on behalf of mia.")
			if got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID}); got.Status != "pending" || !strings.Contains(got.Text, "Call get_approval with the id.") {
				t.Errorf("before the decision: %+v", got)
			}
			end()
			s.Settle()
			if got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID}); got.Status != "done" || got.Text != want {
				t.Errorf("want %s: %+v", want, got)
			}
		}
	}, policy)
}

// TestAgentReadsWhy nobody could be asked, and what was changed before it was approved.
func TestAgentReadsWhy(t *testing.T) {
	policy := func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if call.Action.Name != server.RequestApproval {
			return actions.DefaultPolicy(ctx, turn, call)
		}
		if call.Entities["what"] == "Deploy 1.3" {
			return actions.Approval{Required: true, Find: func(context.Context, *actions.Turn, actions.Call) ([]string, error) { return nil, nil }}, nil
		}
		return actions.Approval{Required: true, Approvers: []string{"aad-Ben"}, Change: []string{"what"}}, nil
	}
	testAgents(t, func(t *testing.T, s *agents) {
		chat, ben := s.meet(), s.Personal("Ben")
		asked := s.call(t, "mia-1", "request_approval", map[string]any{"what": "Deploy 1.3"})
		const why = "I can't reach enough people who may approve this, so I didn't do it."
		chat.Expect(why)
		s.Settle()
		if got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID}); got.Status != "failed" || got.Text != why {
			t.Errorf("nobody found: %+v", got)
		}
		asked = s.call(t, "mia-1", "request_approval", map[string]any{"what": "Deploy 1.4", "minutes": 5})
		chat.ExpectCard("May I ask Ben").Press("Send")
		ben.ExpectCard("Deploy 1.4")
		time.Sleep(7 * time.Minute)
		s.Settle()
		if got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID}); got.Status != "done" || got.Text != `{"decision":"unanswered"}` {
			t.Errorf("after its minutes: %+v", got)
		}
		asked = s.call(t, "mia-1", "request_approval", map[string]any{"what": "Deploy 1.2"})
		chat.ExpectCard("May I ask Ben").Press("Send")
		ben.ExpectCard("Deploy 1.2").Press("Approve", "change:what", "Deploy 1.1")
		chat.ExpectMatch("^Ben changed this")
		chat.Press("Approve")
		s.Settle()
		got := s.call(t, "mia-1", "get_approval", map[string]any{"id": asked.ID})
		var came struct{ Decision, Changed string }
		if err := json.Unmarshal([]byte(got.Text), &came); err != nil || came.Decision != "approved" || !strings.Contains(came.Changed, "Deploy 1.2 → Deploy 1.1") {
			t.Errorf("changed: %+v, %v", got, err)
		}
	}, policy)
}

// TestAgentCallsActions: they run as any other call does, with the policy and in the name of the person.
func TestAgentCallsActions(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		chat := s.meet()
		if got := s.call(t, "mia-1", "look", map[string]any{"where": "here"}); got.Status != "done" || got.Text != "did it" {
			t.Errorf("look: %+v", got)
		}
		if got := s.call(t, "mia-1", "look", map[string]any{"where": "nowhere"}); got.Status != "failed" || got.Text != "there is no such place" || !got.IsError {
			t.Errorf("look nowhere: %+v", got)
		}
		if got := s.call(t, "mia-1", "look", map[string]any{"what": 1}); !got.IsError || got.ID != "" || !strings.Contains(got.Text, "where") {
			t.Errorf("wrong arguments: %+v", got)
		}
		chat.ExpectNothing()
		wiped := s.call(t, "mia-1", "wipe", map[string]any{"where": "there"})
		if wiped.Status != "pending" {
			t.Fatalf("wipe: %+v", wiped)
		}
		card := chat.ExpectCard("May I do this?", "Wipe", "there", "The program Coder asks for this on your behalf.")
		s.Kill(1)
		s.Restart()
		card.Press("Approve")
		s.Settle()
		if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": wiped.ID}); got.Status != "done" || got.Text != "did it" {
			t.Errorf("approved: %+v", got)
		}
		rejected := s.call(t, "mia-1", "wipe", map[string]any{"where": "elsewhere"})
		chat.ExpectCard("May I do this?").Press("Reject")
		chat.Expect("OK, I won't do this: Wipe.")
		s.Settle()
		if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": rejected.ID}); got.Status != "rejected" {
			t.Errorf("rejected: %+v", got)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := strings.Join(s.ran, ", "); got != "look here for 29:mia aad-Mia, look nowhere for 29:mia aad-Mia, wipe there for 29:mia aad-Mia" {
			t.Errorf("ran %s", got)
		}
		for _, r := range []actions.Request{
			{Tenant: "tenant-1", Person: "aad-Mia", Subject: "x", Action: "gone"},
			{Tenant: "tenant-1", Person: "aad-Mia", Action: "look", Entities: map[string]any{"where": "here"}},
		} {
			if _, err := s.bot.Request(t.Context(), r); !errors.Is(err, actions.ErrNoRequest) {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

// TestAgentsGetMuch: however much a program gets, its calls end, and it takes nothing from another.
func TestAgentsGetMuch(t *testing.T) {
	ci.NotUnderRace(t, "it keeps a megabyte of results")
	testAgents(t, func(t *testing.T, s *agents) {
		s.meet()
		other := s.call(t, "mia-2", "look", map[string]any{"where": "here"})
		for i := range 45 {
			if got := s.call(t, "mia-1", "look", map[string]any{"where": "everywhere"}); got.Status != "done" || len(got.Text) < 16<<10 {
				t.Fatalf("call %d: %s %.100s", i, got.Status, got.Text)
			}
		}
		s.Settle()
		if got := s.call(t, "mia-2", "get_answer", map[string]any{"id": other.ID}); got.Status != "done" || got.Text != "did it" {
			t.Errorf("the other program: %.200v", got)
		}
	})
}

// TestAgentsCallAtOnce: no call that ran is answered as if there had been none.
func TestAgentsCallAtOnce(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		s.meet()
		for range 3 {
			var all sync.WaitGroup
			for range 41 {
				all.Go(func() {
					if got := s.call(t, "mia-1", "look", map[string]any{"where": "here"}); got.Status != "done" || got.Text != "did it" {
						t.Errorf("%+v", got)
					}
				})
				time.Sleep(50 * time.Millisecond) // within the limit of calls
			}
			all.Wait()
		}
	})
}

// TestAgentsCallTooMuch: new calls are refused before a result that somebody may wait for is lost.
func TestAgentsCallTooMuch(t *testing.T) {
	ci.NotUnderRace(t, "it makes 400 calls")
	testAgents(t, func(t *testing.T, s *agents) {
		s.meet()
		var ids []string
		full := false
		for i := range 400 {
			got := s.call(t, "mia-1", "look", map[string]any{"where": "here"})
			switch {
			case got.ID == "" && strings.Contains(got.Text, "too many open requests"):
				full = true
			case got.Status != "done":
				t.Fatalf("call %d: %+v", i, got)
			default:
				ids = append(ids, got.ID)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !full {
			t.Error("no call was refused")
		}
		for _, id := range ids {
			if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": id}); got.Status != "done" || got.Text != "did it" {
				t.Errorf("%+v", got)
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(3 * time.Minute)
		if got := s.call(t, "mia-1", "look", map[string]any{"where": "here"}); got.Status != "done" {
			t.Errorf("later: %+v", got)
		}
	})
}

// TestAgentsWaitMuch: a program whose calls wait in large numbers is answered at once.
func TestAgentsWaitMuch(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		chat := s.meet()
		asked := s.call(t, "mia-1", "ask_person", map[string]any{"question": "Why?"})
		chat.ExpectCard("Why?")
		var all sync.WaitGroup
		var waited atomic.Int32
		for range 60 {
			all.Go(func() {
				began := time.Now()
				if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": asked.ID, "seconds": 30}); got.Status != "pending" {
					t.Errorf("%+v", got)
				}
				if time.Since(began) >= 30*time.Second {
					waited.Add(1)
				}
			})
			time.Sleep(50 * time.Millisecond) // within the limit of calls
		}
		all.Wait()
		if waited.Load() != 40 {
			t.Errorf("%d calls waited", waited.Load())
		}
	})
}

// TestAgentIsForgotten: what came of requests goes with the person's data, and so does who they are.
func TestAgentIsForgotten(t *testing.T) {
	testAgents(t, func(t *testing.T, s *agents) {
		chat := s.meet()
		done := s.call(t, "mia-1", "look", map[string]any{"where": "here"})
		waits := s.call(t, "mia-1", "ask_person", map[string]any{"question": "Why?"})
		card := chat.ExpectCard("Why?")
		chat.Say("/mydata")
		if data := chat.Next(); !strings.Contains(data.JSON, "what programs asked for on your behalf") || !strings.Contains(data.JSON, done.ID) {
			t.Errorf("/mydata says %s", data.JSON)
		}
		chat.Say("/forget yes")
		chat.ExpectMatch("deleted everything")
		for _, id := range []string{done.ID, waits.ID} {
			if got := s.call(t, "mia-1", "get_answer", map[string]any{"id": id}); !strings.Contains(got.Text, "no such request") {
				t.Errorf("after /forget: %+v", got)
			}
		}
		if shown := card.Press("Send", "f0", "because").Body; !strings.Contains(string(shown), "no longer waiting") {
			t.Errorf("the click was answered with %s", shown)
		}
		if got := s.call(t, "mia-1", "look", map[string]any{"where": "here"}); !got.IsError {
			t.Errorf("after /forget: %+v", got)
		}
	})
}
