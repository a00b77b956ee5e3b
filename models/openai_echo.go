package models

import (
	"errors"
	"slices"
	"strings"
)

// echoBytes is how much of a prompt may turn up in a server's message by chance.
const echoBytes = 24

// hideEchoes takes a server's message out of err when it repeats the prompt: some
// servers and gateways quote what they were sent.
func hideEchoes(err error, req *Request) {
	fault, ok := errors.AsType[*Error](err)
	if ok && fault.Err != nil && fault.Status != 0 && echoes(fault.Err.Error(), req) {
		fault.Err = errors.New("the server's message is withheld: it repeats the prompt")
	}
}

func echoes(text string, req *Request) bool {
	for _, m := range req.Messages {
		if echoesText(text, m.Text) || slices.ContainsFunc(m.Calls, func(c Call) bool { return echoesText(text, c.Arguments) }) {
			return true
		}
	}
	return false
}

func echoesText(text, sent string) bool {
	if n := len(sent); n >= 8 && n < echoBytes && strings.Contains(text, sent) {
		return true
	}
	for i := 0; i+echoBytes <= len(text); i++ {
		if strings.Contains(sent, text[i:i+echoBytes]) {
			return true
		}
	}
	return false
}
