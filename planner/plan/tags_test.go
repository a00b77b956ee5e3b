package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/planner/plan"
)

// thinkingForms are the tags around thinking of models that are known, each with the one that closes it.
var thinkingForms = [][2]string{
	{"< think >", "</ think >"},
	{"<∣think∣>", "<∣/think∣>"},
	{"[ THINK ]", "[/ THINK ]"},
	{"<think>", "</think>"},
	{"<Thinking>\n", "\n</Thinking>"},
	{"<|channel>thought\n", "<channel|>"},
	{"<|channel>plan\n", "\n<channel|>"},
	{"◁think▷", "◁/think▷"},
	{"[THINK]", "[/THINK]"},
	{"[[THINK]]", "[[/THINK]]"},
	{"<seed:think>", "</seed:think>"},
	{"<longcat_think>", "</longcat_think>"},
	{"<reasoning>\n", "\n</reasoning>\n"},
	{"<thought>", "</thought>"},
	{"<antThinking>", "</antThinking>"},
	{"<reflection kind=\"x\">", "</reflection>"},
	{"<inner_monologue>", "</inner_monologue>"},
	{"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|begin_of_thought|>\n", "\n<|end_of_thought|>\n\n"},
	{"<|thinking_start|>", "<|thinking_end|>"},
	{"<|think|>", "<|/think|>"},
	{"<|think|>", "</think>"},
	{"<|inner_prefix|>", "<|inner_suffix|>"},
	{"<｜think｜>", "<｜/think｜>"},
	{"<｜begin▁of▁thinking｜>", "<｜end▁of▁thinking｜>"},
	{"<｜｜think｜｜>", "</｜｜think｜｜>"},
	{"<‖think‖>", "<‖/think‖>"},
	{"<<think>>", "<</think>>"},
	{"<<<think>>>", "<<</think>>>"},
	{"<||reasoning||>", "<||/reasoning||>"},
	{"＜think＞", "＜/think＞"},
	{"＜｜reasoning｜＞", "＜｜/reasoning｜＞"},
	{"⟨think⟩", "⟨/think⟩"},
	{"【think】", "【/think】"},
	{"<unused94>thought\n", "<unused95>"},
	{"<chain_of_thought>", "</chain_of_thought>"},
	{"<thinking>", "</think>"},
	{"<|startofthinking|>", "<|endofthinking|>"},
	{"<scratch_pad>", "</scratch_pad>"},
}

// spokenForms are words around thinking.
var spokenForms = [][2]string{
	{"Here is my thought process:\n", "\n\nHere is my response:\n"},
	{"**Here's my reasoning:**\n", "\n\n**Here's my answer:**\n"},
	{"analysisWell, ", "\nassistantfinal"},
}

// softForms are brackets that also stand around the words of a text.
var softForms = [][2]string{{"{think}\n", "\n{/think}\n"}, {"(thinking)", "(/thinking)"}, {"«reasoning»\n", "\n«/reasoning»"}, {"《think》", "《/think》"}, {"〈thought〉", "〈/thought〉"}}

// strangeForms are tags that nobody has heard of, and those of documents and of answers.
var strangeForms = [][2]string{
	{"<draft>", "</draft>"},
	{"<zorp attr=\"1\">\n", "\n</zorp>"},
	{"<x:notes>", "</x:notes>"},
	{"<|zorp|>", "<|/zorp|>"},
	{"<|zorp_start|>", "<|zorp_end|>"},
	{"<|zorp>", "<zorp|>"},
	{"<｜zorp｜>", "<｜/zorp｜>"},
	{"<<zorp>>", "<</zorp>>"},
	{"[NOTES]", "[/NOTES]"},
	{"◁zorp▷", "◁/zorp▷"},
	{"<details>", "</details>"},
	{"<plan>", "</plan>"},
	{"<answer>", "</answer>"},
	{"<output>\n", "\n</output>"},
}

const question = "Shall I add champagne?"

// ran reports whether anything of an output would run or be shown as a plan.
func ran(text string) bool {
	p, err := plan.Decode(text)
	return err == nil && !p.Prose
}

// TestThinkingNeverRuns puts drafts into thinking.
func TestThinkingNeverRuns(t *testing.T) {
	t.Parallel()
	for _, form := range slices.Concat(thinkingForms, spokenForms, softForms) {
		open, shut := form[0], form[1]
		for _, draft := range []string{planMilk, "A plan would be:\n" + planMilk + "\nBut it is a question.\n", "```json\n" + planMilk + "\n```", "Or " + planX + " then\n" + planMilk, doMilk} {
			p, err := plan.Decode(open + draft + shut + question)
			if err != nil || !p.Prose || p.Commands[0].Response != question {
				t.Errorf("%q: %v, %v", open+draft+shut+question, p.Commands, err)
			}
			p, err = plan.Decode(open + draft + shut + "\n" + planMilk)
			if err != nil || len(p.Commands) != 2 {
				t.Errorf("%q: %v, %v", open+draft+shut+planMilk, p.Commands, err)
			}
			for _, text := range []string{open + draft, "\ufeff" + open + draft + "\nBut", open + draft + shut, open + draft + shut + shut} {
				if ran(text) {
					t.Errorf("ran: %q", text)
				}
			}
			if text := "Sure.\n" + open + draft + "\n"; slices.Contains(thinkingForms, form) && ran(text) {
				t.Errorf("ran: %q", text)
			}
		}
	}
}

// TestNamedThinking: words that name what follows as thinking are a mark like any other, if it goes on behind the plan.
func TestNamedThinking(t *testing.T) {
	t.Parallel()
	draft := "A plan would be:\n" + planMilk + "\nBut it is a question.\n"
	for _, open := range []string{
		"## Thinking\n", "**Thinking:** ", "Thoughts:\n", "Thinking Process:\n\n", "&lt;think&gt;", "\\<think\\>", "```thinking\n", "thought\n", "*reasoning*\n", "Here is my reasoning:\n",
	} {
		if ran(open + draft + question) {
			t.Errorf("ran: %q", open+draft+question)
		}
		if open != "Here is my reasoning:\n" && !ran(open+"It is milk.\n"+planMilk) { // Granite's, which has an answer of its own
			t.Errorf("reasons before the plan: %q", open)
		}
	}
	for _, open := range []string{"Sure.\n", "I think that this adds the milk that you want:\n", "# Milk\n"} {
		if !ran(open + planMilk + "\nDone.") {
			t.Errorf("did not run: %q", open)
		}
	}
	for text, want := range map[string]string{"<!-- hm -->\nHello.": "Hello.", "/* thinking\nhm */ Hello.": "Hello.", "---\n<think>hm</think>Hello.": "Hello.", "/* main.c */ int x;": "/* main.c */ int x;"} {
		if p, err := plan.Decode(text); err != nil || p.Commands[0].Response != want {
			t.Errorf("%q: %v, %v", text, p.Commands, err)
		}
	}
}

// TestThinkingIsNotShown: neither whole, nor cut off, nor while it is written.
func TestThinkingIsNotShown(t *testing.T) {
	t.Parallel()
	for _, form := range slices.Concat(thinkingForms, spokenForms) {
		open, shut := form[0], form[1]
		for _, text := range []string{open + "The secret is 7.", open + "The secret\nis 7. " + shut, open + "The secret is 7." + shut + question} {
			p, err := plan.Decode(text)
			if said := fmt.Sprint(p.Commands); err == nil && (strings.Contains(said, "secret") || !strings.Contains(said, question)) {
				t.Errorf("%q shows %s", text, said)
			}
			if shown := lastOf(draft(t, true, strings.Split(text, "")...)); strings.Contains(shown, "secret") {
				t.Errorf("%q shows early %q", text, shown)
			}
		}
	}
}

// TestStrangeBlocks: a block that an answer begins with is an envelope only if it is closed and holds one
// plan and nothing else.
func TestStrangeBlocks(t *testing.T) {
	t.Parallel()
	for _, form := range strangeForms {
		open, shut := form[0], form[1]
		for _, text := range []string{
			open + planMilk, open + "\n" + planMilk + "\n", open + "hm\n" + planMilk + "\n" + shut, open + planMilk + "\nhm" + shut,
			open + planMilk + shut + "\n" + planX, open + planMilk + "\n" + planMilk + shut, open + "hm" + shut + "\n" + planMilk, open + "hm" + shut + planMilk,
			open + "A plan would be:\n" + planMilk + "\nBut I ask first.\n" + shut + question, open + "A plan would be:\n" + planMilk + "\nBut",
			"A plan would be:\n" + planMilk + "\nBut I ask first.\n" + shut + question, open + "\n```json\n" + planMilk + "\n```\nhm\n" + shut,
			"Sure.\n" + open + "\nA plan would be:\n" + planMilk + "\nBut\n" + shut + "\n" + question,
		} {
			if ran(text) {
				t.Errorf("ran: %q", text)
			}
		}
		for _, text := range []string{open + planMilk + shut, open + "\n" + planMilk + "\n" + shut + "\n", open + "\n```json\n" + planMilk + "\n```\n" + shut, "<think>hm " + planX + "</think>\n" + open + planMilk + shut} {
			if p, err := plan.Decode(text); err != nil || len(p.Commands) != 2 {
				t.Errorf("did not run: %q: %v", text, err)
			}
		}
	}
}

// roleForms name the role of a model's own turn, and turnForms are only around it, as chat templates have them.
var (
	roleForms = [][2]string{
		{"<|im_start|>assistant\n", "<|im_end|>"},
		{"<|im_start|> assistant\n", "\n<|im_end|>\n"},
		{"<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"},
		{"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>"},
		{"<|turn>model\n", "<turn|>"},
		{"<start_of_turn>model\n", "<end_of_turn>"},
	}
	turnForms = [][2]string{
		{"<|im_start|>", "<|im_end|>"},
		{"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
		{"<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"},
		{"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
		{"<|startofturn|>", "<|endofturn|>"},
		{"<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
		{"[|assistant|]", "[|endofturn|]"},
		{"<|bot|>", "<|eob|>"},
		{"<|zorp|>", "<|blah|>"},
		{"<s>", "</s>"},
	}
)

// TestTheTurnOfAModel: a plan that stands alone between the tokens of a turn runs; nothing of them is shown.
func TestTheTurnOfAModel(t *testing.T) {
	t.Parallel()
	for _, form := range slices.Concat(roleForms, turnForms) {
		open, shut := form[0], form[1]
		for _, text := range []string{open + planMilk + shut, open + "\n```json\n" + planMilk + "\n```\n" + shut} {
			if p, err := plan.Decode(text); err != nil || len(p.Commands) != 2 {
				t.Errorf("did not run: %q: %v", text, err)
			}
		}
		p, err := plan.Decode(open + "Hello." + shut)
		if said := fmt.Sprint(p.Commands); err == nil && strings.ContainsAny(said, "|｜") {
			t.Errorf("%q shows %s", open, said)
		}
	}
	for _, form := range turnForms {
		open, shut := form[0], form[1]
		for _, text := range []string{
			open + planMilk, open + "hm\n" + planMilk + "\n" + shut, open + planMilk + "\nhm" + shut, open + planMilk + "\n" + planX + shut, open + "hm" + shut + "\n" + planMilk,
		} {
			if ran(text) {
				t.Errorf("ran: %q", text)
			}
		}
	}
}

// TestDialectsAreNotShown: a call in any dialect is asked for again.
func TestDialectsAreNotShown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"addItem\">\n<｜DSML｜parameter name=\"list\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
		"<｜｜DSML｜｜tool_calls>\n<｜｜DSML｜｜invoke name=\"addItem\">", "<‖DSML‖function_calls>\n<‖DSML‖invoke name=\"addItem\">",
		"I will.\n\n<｜DSML｜function_calls>\n", "Sure: <｜DSML｜invoke name=\"addItem\">",
		"<|tool_call>call:addItem{list:<|\"|>a<|\"|>}<tool_call|>", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>addItem",
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.addItem:0<|tool_call_argument_begin|>{\"list\":\"a\"}<|tool_call_end|>",
		"<minimax:tool_call>\n<invoke name=\"addItem\">", "<seed:tool_call>\n<function=addItem>", "<longcat_tool_call>addItem\n", "<tool_call>addItem\n<arg_key>list</arg_key>",
		"<steptml:toolcall>x</steptml:toolcall>", "<|tool_call|>[{\"name\":\"addItem\",\"arguments\":{}}]<|/tool_call|>", "<|START_ACTION|>[{\"tool_name\":\"addItem\"}]<|END_ACTION|>",
		"<|action_start|><|plugin|>{\"name\":\"addItem\"}<|action_end|>", "functools[{\"name\":\"addItem\",\"arguments\":{}}]",
		"\"tool_calls\": [\n  {\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"addItem\",\"arguments\":\"{}\"}}\n]", "tool_calls: [{\"name\":\"addItem\"}]",
		"{\"tool_calls\":[{\"function\":{\"name\":\"addItem\"}}]}", "✿FUNCTION✿: addItem\n✿ARGS✿: {}",
		"call:addItem{list:a}", "<xai:function_call name=\"addItem\">", "<tools>\n<tool>addItem</tool>\n</tools>", "<function_call>{}</function_call>", "<toolUse name=\"addItem\"/>",
		"<execute>\naddItem(list=\"a\")\n</execute>",
		"Let me.\n<invoke name=\"addItem\">\n", "[TOOL_CALL]\n{tool => \"addItem\"}\n[/TOOL_CALL]", "<call:addItem>", "<｜DSML", "<|python_tag|>addItem.call(list=\"a\")",
		"to=functions.addItem {\"list\":\"a\"}", "print(default_api.addItem(list=\"a\"))",
	} {
		if p, err := plan.Decode(text); err == nil {
			t.Errorf("%q shows %v", text, p.Commands)
		}
		if shown := lastOf(draft(t, true, strings.Split(text, "")...)); strings.Contains(shown, "addItem") {
			t.Errorf("%q shows early %q", text, shown)
		}
	}
}

// TestAnswersWithTags: HTML is an answer, and tags in code are text.
func TestAnswersWithTags(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"<b>Hello</b>, how are you?", "<p>Hello</p>\n<ul><li>one</li></ul>", "<details><summary>More</summary>All of it.</details>", "<table><tr><td>1</td></tr></table>",
		"<div class=\"x\">Hello</div>", "<br>Hello", "<a href=\"https://x.y\">x</a> is it.", "<h1>Title</h1>", "Use `<|im_sep|>` between them.", "It writes `<tool_call>x</tool_call>` then.",
		"Use the <think> tag.", "[link](https://x.y) is it.", "[Note] Hello.", "a <| b |> c", "<https://x.y> is it.", "【重要】会议改期。", "« oui »", "(thinking) Hello there.", "(Analysis) It is 7.", "{name} is it.",
	} {
		p, err := plan.Decode(text)
		if err != nil || !p.Prose || p.Commands[0].Response != text {
			t.Errorf("%q: %v, %v", text, p.Commands, err)
		}
	}
}

// TestXMLPlansInTags: what holds for plans of JSON holds for those of XML.
func TestXMLPlansInTags(t *testing.T) {
	t.Parallel()
	reg := xmlActions(t)
	wipe := inPlan("<function.wipe/>")
	for _, form := range slices.Concat(thinkingForms, strangeForms) {
		open, shut := form[0], form[1]
		for _, text := range []string{
			open + "I could:\n" + wipe + "\nBut I ask first.\n" + shut + question, open + "I could:\n" + wipe + "\nBut", "I could:\n" + wipe + "\nBut I ask first.\n" + shut + question,
		} {
			if open == "<plan>" {
				continue // it is the plan's own
			}
			if p, err := plan.DecodeXML(text, "", reg); err == nil && hasDo(p) {
				t.Errorf("ran: %q", text)
			}
		}
	}
}
