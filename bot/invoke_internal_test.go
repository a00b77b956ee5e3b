package bot // what is checked at the door, without one

import (
	"encoding/json"
	"testing"

	"github.com/planbot-go/planbot/activity"
)

// FuzzInvokeValues holds what anybody may send as the value of an invoke to an answer, or
// to what the handlers rely on.
func FuzzInvokeValues(f *testing.F) {
	for _, value := range []string{
		`null`, `[]`, `"x"`, `7`, `{"action":null}`, `{"action":{"type":"Action.Execute","verb":"v","data":{"a":[1e400]}},"trigger":"manual","state":7}`,
		`{"action":{"type":"Action.Execute","verb":"planbot/approve","data":{"approval":"a","hash":"h","verb":"planbot/approve"}}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"like","feedback":"{\"feedbackText\":\"good\"}"}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"dislike","feedback":"{\"feedbackText\":7}"}}`,
		`{"actionName":"feedback","actionValue":{"reaction":"like","feedback":"\"x"}}`,
	} {
		f.Add([]byte(value))
	}
	b := &Bot{}
	f.Fuzz(func(t *testing.T, value []byte) {
		body := append([]byte(`{"type":"invoke","conversation":{"id":"c"},"replyToId":"1","value":`), value...)
		a, err := activity.Decode(append(body, '}'))
		if err != nil {
			t.Skip()
		}
		if response := b.routes.checkClick(a); response != nil {
			if raw, err := json.Marshal(response.Body); err != nil || len(raw) == 0 {
				t.Fatalf("answer %s (%v)", raw, err)
			}
		} else if click, err := readClick(a); err != nil || b.routes.cards[click.Verb] == nil {
			t.Fatalf("let in %+v (%v)", click, err)
		}
		if checkFeedback(a) != nil {
			return
		}
		feedback, _ := readFeedback(a)
		if len(feedback.Form) > 0 && feedback.Form.Kind() != '{' {
			t.Fatalf("let in %+v", feedback)
		}
	})
}
