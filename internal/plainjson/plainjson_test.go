package plainjson_test

import (
	"math"
	"testing"

	"github.com/planbot-go/planbot/internal/plainjson"
)

func TestMarshal(t *testing.T) {
	t.Parallel()
	if got, want := plainjson.Text(map[string]any{"b": "<1> & 2", "a": nil}), `{"a":null,"b":"<1> & 2"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	raw, err := plainjson.Marshal(math.NaN())
	if err == nil || raw != nil || plainjson.Text(math.NaN()) != err.Error() {
		t.Errorf("got %s, %v", raw, err)
	}
}
