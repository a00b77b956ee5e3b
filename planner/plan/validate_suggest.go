package plan

import (
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Suggest names the actions whose names are nearest to an unknown one.
func Suggest(name string, reg *actions.Registry) string {
	name = spelling.Clip(name)
	function := spelling.Plain(name[strings.LastIndexByte(name, '.')+1:]) // the model may have made up a plugin
	name = spelling.Plain(name)
	var known []string
	for _, action := range reg.All() {
		known = append(known, action.Name)
	}
	near := spelling.Nearest(known, func(action string) (int, bool) {
		action = spelling.Plain(action)
		edits := min(spelling.Edits(name, action), spelling.Edits(function, action))
		return edits, edits <= max(2, len(name)/2)
	})
	if near == nil {
		return "; use only the actions that are listed"
	}
	return "; the nearest names are " + strings.Join(near, ", ")
}
