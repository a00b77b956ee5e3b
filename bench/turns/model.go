package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxBody bounds what the stand-ins read.
const maxBody = 16 << 20

// step is a message of the cycle that each conversation goes through, and what
// the model plans for it. After a cycle the state is as it was after the first.
type step struct {
	text     string
	commands []command
}

// command is one of a plan, in the form of the planner sequence.
type command struct {
	Type     string            `json:"type"`
	Action   string            `json:"action,omitempty"`
	Entities map[string]string `json:"entities,omitempty"`
	Response string            `json:"response,omitempty"`
}

func do(action string, entities map[string]string) command {
	return command{Type: "DO", Action: action, Entities: entities}
}

func say(text string) command { return command{Type: "SAY", Response: text} }

func cycle() []step {
	bananas := map[string]string{"list": "Groceries", "item": "bananas"}
	return []step{
		{"create a list Groceries and add bananas to it", []command{
			do("createList", map[string]string{"list": "Groceries"}), do("addItem", bananas), say("Groceries is there, with bananas."),
		}},
		{"add milk to Groceries", []command{do("addItem", map[string]string{"list": "Groceries", "item": "milk"}), say("Milk is on Groceries.")}},
		{"remove bananas from Groceries", []command{do("removeItem", bananas), say("Bananas are off Groceries.")}},
		{"summarize my lists", []command{do("summarizeLists", nil), say("Those are your lists.")}},
	}
}

// planFor is what the model answers to the text of a person: the plan of its step,
// with the tag of the message at the end of what is said, so that the reply can be
// told from all others.
func planFor(steps []step, text string) (string, error) {
	_, tag, tagged := strings.Cut(text, tagMark)
	for i := range steps {
		if !tagged || !strings.HasPrefix(text, steps[i].text) {
			continue
		}
		commands := append([]command(nil), steps[i].commands...)
		for j := range commands {
			if commands[j].Type == "SAY" {
				commands[j].Response += tagMark + tag
			}
		}
		raw, err := json.Marshal(object{"type": "plan", "commands": commands})
		return string(raw), err
	}
	return "", fmt.Errorf("%.80q is no message of the load", text)
}

// model is an OpenAI-compatible server that knows the cycle.
type model struct {
	url     string
	steps   []step
	server  *http.Server
	latency atomic.Int64 // time.Duration
	calls   atomic.Int64
	bytes   atomic.Int64 // of the requests
}

func startModel(ctx context.Context) (*model, error) {
	m := &model{steps: cycle()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	server, url, err := serve(ctx, mux)
	m.server, m.url = server, url+"v1"
	return m, err
}

func (m *model) close() { _ = m.server.Close() } // the bots are gone

// prompt is what the stand-in reads of a request.
type prompt struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
}

// lastOfUser is the text of the last message of the person.
func (p *prompt) lastOfUser() string {
	for i := len(p.Messages) - 1; i >= 0; i-- {
		if p.Messages[i].Role == "user" {
			text, _ := p.Messages[i].Content.(string) // parts are no message of the load
			return text
		}
	}
	return ""
}

func (m *model) complete(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	m.bytes.Add(int64(len(raw)))
	var p prompt
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err == nil && p.Stream {
		err = errors.New("this stand-in does not stream")
	}
	var text string
	if err == nil {
		text, err = planFor(m.steps, p.lastOfUser())
	}
	if err != nil {
		answer(w, http.StatusBadRequest, object{"error": map[string]string{"message": err.Error(), "type": "invalid_request_error"}})
		return
	}
	if err := pause(r.Context(), time.Duration(m.latency.Load())); err != nil {
		return // the bot hung up
	}
	asked, said := len(raw)/4, len(text)/4 // a token has about four characters
	answer(w, http.StatusOK, object{
		"id": "chatcmpl-bench", "object": "chat.completion", "created": time.Now().Unix(), "model": p.Model,
		"choices": []any{object{"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": text}}},
		"usage":   map[string]int{"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // to a bot that may be gone
}
