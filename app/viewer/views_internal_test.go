package viewer

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/testing/markuptest"
)

func TestMarkupStaysText(t *testing.T) {
	t.Parallel()
	markuptest.Check(t, func(p page) (string, error) {
		var out strings.Builder
		err := p.html().Render(&out)
		return out.String(), err
	})
}
