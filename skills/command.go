package skills

import (
	"context"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// Command is what a person says of skills behind /skill, such as "" for a list of those
// there are, "NAME" to load one, "NAME and more text" to load it for that text, which comes
// back as rest to be planned, "off" to end the topics of all that are loaded, and "off NAME"
// of one. reply is what the person is told, in Markdown, "" when there is a rest.
func (p *Provider) Command(ctx context.Context, turn *actions.Turn, words string) (reply, rest string, err error) {
	v, err := p.everything(ctx, turn)
	if err != nil {
		return "", "", err
	}
	words = strings.TrimSpace(words)
	name, rest := words, ""
	if at := strings.IndexAny(words, " \t\r\n\u00a0"); at >= 0 {
		name, rest = words[:at], strings.TrimSpace(words[at:])
	}
	topics := topicsOf(turn)
	switch {
	case name == "":
		return v.listing(topics), "", nil
	case strings.EqualFold(name, "off"):
		return topics.off(v, rest), "", nil
	}
	i, fault := v.skill(name)
	if fault != "" {
		return "I have no skill '" + markdown(clip(name)) + "'. " + strings.TrimSpace(markdown(didYouMean(name, v.names))+" Say **/skill** for a list."), "", nil
	}
	if rest != "" {
		topics.begin(turn.ID)
	}
	switch added, err := p.activate(ctx, turn, v, v.skills[i]); {
	case err != nil:
		return "I cannot load " + markdown(v.names[i]) + ": " + markdown(err.Error()) + ". **/skill off** ends them, **/skill off NAME** one of them.", "", nil
	case rest != "":
		return "", rest, nil
	case !added:
		return "The skill " + markdown(v.names[i]) + " is loaded already.", "", nil
	}
	return markdown(loadedText(v.names[i])), "", nil
}

// maxListing is how many characters of a description a list for people has.
const maxListing = 300

// listing is the skills of the turn for a person to read.
func (v *view) listing(t *topics) string {
	if len(v.skills) == 0 {
		return "There are no skills here."
	}
	var b strings.Builder
	b.WriteString("Skills that I can use:\n")
	for _, s := range v.skills {
		b.WriteString("\n- **" + markdown(s.Name) + "**")
		if t.has(s.Name) {
			b.WriteString(" (loaded)")
		}
		b.WriteString(": " + markdown(cutTo(inLine(s.Description), maxListing)))
	}
	return b.String() + "\n\n**/skill NAME** loads one, **/skill NAME text** for what the text asks, and **/skill off** ends them."
}

// off ends the topic of one skill, or with "" of all that the turn knows of.
func (t *topics) off(v *view, name string) string {
	loaded := slices.DeleteFunc(names(t.Loaded, func(l topic) string { return l.Skill }), func(n string) bool { return !slices.Contains(v.names, n) })
	if name != "" {
		i := find(name, loaded)
		if i < 0 {
			return "The skill " + markdown(clip(name)) + " is not loaded."
		}
		loaded = loaded[i : i+1]
	}
	if len(loaded) == 0 {
		return "No skill is loaded."
	}
	t.drop(func(l topic) bool { return slices.Contains(loaded, l.Skill) })
	return "No longer loaded: " + markdown(strings.Join(loaded, ", ")) + "."
}

// markdown is a stranger's text on one line, with no Markdown or tags in it.
func markdown(text string) string {
	return strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", "[", `\[`, "]", `\]`, "`", "'", "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`).Replace(inLine(text))
}
