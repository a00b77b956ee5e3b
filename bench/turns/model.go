package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sashabaranov/go-openai"
)

// maxBody bounds what the stand-ins read.
const maxBody = 16 << 20

// step is a message of the cycle that each conversation goes through, and what
// the model plans for it. After a cycle the state is as it was after the first.
type step struct{ text, plan string }

// tag stands in a plan where the tag of the message goes.
const tag = "TAG"

func cycle() []step {
	const groceries, bananas = `"entities":{"list":"Groceries"}`, `"entities":{"list":"Groceries","item":"bananas"}`
	plan := func(said string, dos ...string) string {
		return fmt.Sprintf(`{"type":"plan","commands":[%s{"type":"SAY","response":"%s`+tagMark+tag+`"}]}`, strings.Join(dos, ""), said)
	}
	do := func(action, entities string) string {
		return fmt.Sprintf(`{"type":"DO","action":"%s",%s},`, action, entities)
	}
	return []step{
		{
			"create a list Groceries and add bananas to it",
			plan("Groceries is there, with bananas.", do("createList", groceries), do("addItem", bananas)),
		},
		{"add milk to Groceries", plan("Milk is on Groceries.", do("addItem", `"entities":{"list":"Groceries","item":"milk"}`))},
		{"remove bananas from Groceries", plan("Bananas are off Groceries.", do("removeItem", bananas))},
		{"summarize my lists", plan("Those are your lists.", do("summarizeLists", `"entities":{}`))},
	}
}

// planFor is what the model answers to the text of a person: the plan of its step,
// with the tag of the message at the end of what is said, so that the reply can be
// told from all others.
func planFor(steps []step, text string) (string, error) {
	_, found, tagged := strings.Cut(text, tagMark)
	for _, s := range steps {
		if tagged && strings.HasPrefix(text, s.text) {
			return strings.ReplaceAll(s.plan, tag, found), nil
		}
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

func (m *model) complete(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	var asked openai.ChatCompletionRequest
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	m.bytes.Add(int64(len(raw)))
	if err == nil {
		err = json.Unmarshal(raw, &asked)
	}
	said := "" // by the person, last
	for _, message := range asked.Messages {
		if message.Role == openai.ChatMessageRoleUser {
			said = message.Content
		}
	}
	text := ""
	if err == nil {
		text, err = planFor(m.steps, said)
	}
	if err != nil || asked.Stream {
		answer(w, http.StatusBadRequest, object{"error": object{"message": fmt.Sprint("this stand-in does not stream, and knows the messages of the load only: ", err), "type": "invalid_request_error"}})
		return
	}
	if err := pause(r.Context(), time.Duration(m.latency.Load())); err != nil {
		return // the bot hung up
	}
	prompt, completion := len(raw)/4, len(text)/4 // a token has about four characters
	answer(w, http.StatusOK, openai.ChatCompletionResponse{
		ID: "chatcmpl-bench", Object: "chat.completion", Created: time.Now().Unix(), Model: asked.Model,
		Choices: []openai.ChatCompletionChoice{{
			FinishReason: openai.FinishReasonStop, Message: openai.ChatCompletionMessage{Role: openai.ChatMessageRoleAssistant, Content: text},
		}},
		Usage: openai.Usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion},
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // to a bot that may be gone
}
