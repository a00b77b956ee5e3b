package main

import (
	"fmt"
	"slices"
	"strings"
)

// system is what the model is told: as much as a person would write by hand.
const system = `You are a bot that keeps lists in a chat. Answer with one JSON object only: a plan, its commands in order.
DO runs an action, SAY replies. Example, with an action that you do not have:
{"type":"plan","commands":[{"type":"DO","action":"getTime","entities":{"city":"Oslo"}},{"type":"SAY","response":"I looked at the clock."}]}
Use only the actions below. If something is missing, ask with a SAY. Do only what was asked.

Actions:
createList(list: string) - Creates a list
addItem(list: string, item: string) - Adds an item to a list; creates the list if there is none
removeItem(list: string, item: string) - Removes an item from a list
summarizeLists() - Returns all lists and their items`

// maxHistory is how many messages the model is shown of what was said before.
const maxHistory = 10

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type completionRequest struct {
	Model     string    `json:"model"`
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
}

type completion struct {
	Choices []struct {
		Message message `json:"message"`
	} `json:"choices"`
}

type plan struct {
	Commands []command `json:"commands"`
}

type command struct {
	Type     string `json:"type"`
	Action   string `json:"action"`
	Entities struct {
		List string `json:"list"`
		Item string `json:"item"`
	} `json:"entities"`
	Response string `json:"response"`
}

// memory is what is kept of a conversation.
type memory struct {
	Lists   map[string][]string `json:"lists"`
	History []message           `json:"history"`
}

func (m *memory) prompt(text string) []message {
	all := append([]message{{"system", system}}, m.History...)
	return append(all, message{"user", text})
}

func (m *memory) remember(text, answer string) {
	m.History = append(m.History, message{"user", text}, message{"assistant", answer})
	m.History = m.History[max(0, len(m.History)-maxHistory):]
}

// run does what the plan says and returns what it has to say.
func (m *memory) run(p plan) (string, error) {
	var said []string
	for i := range p.Commands {
		c := &p.Commands[i]
		if c.Type == "SAY" {
			said = append(said, c.Response)
			continue
		}
		if err := m.do(c); err != nil {
			return "", err
		}
	}
	return strings.Join(said, "\n"), nil
}

func (m *memory) do(c *command) error {
	list, item := c.Entities.List, c.Entities.Item
	switch c.Action {
	case "createList":
		if _, there := m.Lists[list]; !there {
			m.Lists[list] = []string{}
		}
	case "addItem":
		if !slices.Contains(m.Lists[list], item) {
			m.Lists[list] = append(m.Lists[list], item)
		}
	case "removeItem":
		m.Lists[list] = slices.DeleteFunc(m.Lists[list], func(s string) bool { return s == item })
	case "summarizeLists":
		// The texts of this bot's plans do not use the summary.
	default:
		return fmt.Errorf("there is no action %q", c.Action)
	}
	return nil
}
