package skills

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
)

// pageBytes is how much of a text is told at a time.
const pageBytes = 64 << 10

// read is read_skill_resource.
func (p *Provider) read(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	g := given(entities)
	u, fault, err := p.findResource(ctx, turn, g)
	if err != nil {
		return actions.Result{}, err
	}
	if fault != "" {
		return fail("%s", fault), nil
	}
	resource := u.skill.Resources[u.part]
	judged, ok, _ := judgedIn(turn).find(ReadResource, u.skill.Name, resource.Name)
	if p.approves(ReadResource) && !ok {
		return fail(unjudged, "Resource", inLine(resource.Name)), nil
	}
	topicsOf(turn).touch(u.skill.Name)
	audit(ctx, ReadResource, u.skill).Str("resource", inLine(resource.Name)).Msg("skill used")
	data, err := resource.Read(ctx)
	if err != nil {
		return p.failed(ctx, err, safeCause(err), fmt.Sprintf("Failed to read resource '%s' from skill '%s'.", inLine(resource.Name), inLine(u.skill.Name)))
	}
	if p.approves(ReadResource) && judged != u.identity(data) {
		return fail(unjudged, "Resource", inLine(resource.Name)), nil
	}
	if data.Binary {
		return actions.ObserveUnsaved("The resource is no text and cannot be shown here: " + data.String() + ". Actions that take a skill's resource can use it by its name."), nil
	}
	return page(resource.Name, unframed(data.String()), g.text(pageNumber)), nil
}

// identity stands for what is read: the skill, and what the resource holds, unless that is
// made anew each time.
func (u use) identity(data Data) string {
	is := u.skill.Dir + "\n" + u.skill.Content()
	if u.skill.Resources[u.part].Size >= 0 {
		is += "\n" + string(data.Bytes)
	}
	return identity(is)
}

// page is one page of a text, counted from 1.
func page(name, text, which string) actions.Result {
	pages := max(1, (len(text)+pageBytes-1)/pageBytes)
	n := 1
	if which = strings.TrimSpace(which); which != "" {
		var err error
		if n, err = strconv.Atoi(which); err != nil || n < 1 || n > pages {
			return fail("Resource '%s' has pages 1 to %d, and no page %s.", inLine(name), pages, clip(which))
		}
	}
	if text == "" {
		return actions.ObserveUnsaved("(the resource is empty)")
	}
	part := text[border(text, n-1):border(text, n)]
	if pages > 1 {
		part += fmt.Sprintf("\n[page %d of %d]", n, pages)
	}
	return actions.ObserveUnsaved(part)
}

// border is where a page ends: where a line does, or else never within a character.
func border(text string, page int) int {
	const near = 1 << 10
	at := page * pageBytes
	if at >= len(text) {
		return len(text)
	}
	if line := strings.LastIndexByte(text[max(0, at-near):at], '\n'); line >= 0 {
		return max(0, at-near) + line + 1
	}
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
