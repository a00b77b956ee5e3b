package bot // what is checked at the door, without one

import (
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
		if click, fault := b.routes.readClick(a); fault == nil {
			t.Fatalf("let in %+v", click) // nothing is behind any button
		} else if answer := cardFault(fault); len(answer.Body) == 0 {
			t.Fatalf("no answer to %v", fault)
		}
		if value, fault := readFeedback(a); fault == nil {
			if form := value.(Feedback).Form; len(form) > 0 && form.Kind() != '{' {
				t.Fatalf("let in %+v", value)
			}
		}
	})
}
