package main

import (
	"encoding/json"
	"fmt"

	"github.com/planbot-go/planbot/actions"
)

func planSchema(reg *actions.Registry) json.RawMessage {
	branches := ""
	for _, a := range reg.All() {
		s, _ := json.Marshal(a.Schema)
		branches += fmt.Sprintf(`{"type":"object","properties":{"type":{"type":"string","enum":["DO"]},"action":{"type":"string","enum":[%q]},"entities":%s},"required":["type","action","entities"],"additionalProperties":false},`, a.Name, s)
	}
	return json.RawMessage(`{"type":"object","properties":{"type":{"type":"string","enum":["plan"]},"commands":{"type":"array","minItems":1,"items":{"anyOf":[` + branches +
		`{"type":"object","properties":{"type":{"type":"string","enum":["SAY"]},"response":{"type":"string"}},"required":["type","response"],"additionalProperties":false}]}}},"required":["type","commands"],"additionalProperties":false}`)
}
