package plan

import (
	"strings"
	"unicode/utf8"
)

// endTokens are what a serving stack leaks at the end of a model's turn. All
// begin with <.
var endTokens = [...]string{
	"</s>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
	"<|return|>", "<|call|>", "<|eot|>", "<|im_start|>", "<|start|>", "<|start_header_id|>",
	"<end_of_turn>", "<start_of_turn>", "<eos>", "<｜end▁of▁sentence｜>",
}

// endTokenAt returns the size of the end token that text begins with; 0 for none.
func endTokenAt(text string) int {
	if len(text) < len("</s>") || strings.IndexByte("/|es\xef", text[1]) < 0 {
		return 0
	}
	for _, token := range endTokens {
		if token[2] == text[2] && strings.HasPrefix(text, token) {
			return len(token)
		}
	}
	return 0
}

// roleLabels are what may stand before an answer to say whose it is. The longer
// of two that begin alike comes first.
var roleLabels = [...]string{
	"<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<start_of_turn>model",
	"<|assistant|>", "<|begin_of_text|>", "<bos>", "**assistant:**", "**assistant**:", "assistant:", "assistant\n",
}

// stripPrefix drops what stands before an answer and is no part of it: a byte
// order mark, white space, characters without width, role labels.
func stripPrefix(text string) (string, repairs) {
	var done repairs
	for {
		trimmed := strings.TrimLeftFunc(text, func(c rune) bool {
			if isInvisible(c) {
				done |= strippedPrefix
			}
			return isInvisible(c) || isSpace(c)
		})
		size := roleLabelAt(trimmed)
		if size == 0 {
			return trimmed, done
		}
		done |= strippedPrefix
		text = trimmed[size:]
	}
}

// roleLabelAt returns the size of the role label that text begins with.
func roleLabelAt(text string) int {
	for _, label := range roleLabels {
		if len(text) >= len(label) && strings.EqualFold(text[:len(label)], label) {
			return len(label)
		}
	}
	return 0
}

// isSpace reports whether c is white space of JSON. The wider spaces are left to
// the reader, which notes them.
func isSpace(c rune) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// stripSuffix drops white space and end tokens at the end of a text. No string of
// JSON can end there, so they are no contents.
func stripSuffix(text string) (string, repairs) {
	var done repairs
	struck := strings.Contains(text, "<s>") // then </s> is HTML
	for {
		text = strings.TrimRightFunc(text, isSpace)
		at := strings.LastIndexByte(text, '<')
		if at < 0 || endTokenAt(text[at:]) != len(text)-at || struck && text[at:] == "</s>" {
			return text, done
		}
		text = text[:at]
		done |= strippedEndToken
	}
}

// tag is a mark around reasoning.
type tag struct{ open, shut string }

// reasoningTags are the marks that models put around reasoning.
var reasoningTags = [...]tag{
	{"<think>", "</think>"},
	{"<thinking>", "</thinking>"},
	{"<reasoning>", "</reasoning>"},
	{"<analysis>", "</analysis>"},
	{"<scratchpad>", "</scratchpad>"},
	{"[think]", "[/think]"},
	{"[thinking]", "[/thinking]"},
	{"[reasoning]", "[/reasoning]"},
	{"[analysis]", "[/analysis]"},
	{"[scratchpad]", "[/scratchpad]"},
	{"◁think▷", "◁/think▷"},
}

// tagAt returns the index of the reasoning tag that text begins with, -1 for
// none, and whether it opens or closes, and its size.
func tagAt(text string) (index int, opens bool, size int) {
	const shortest, longest = len("think"), len("scratchpad")
	start := 1
	if text[0] >= utf8.RuneSelf {
		start = len("◁")
	}
	if opens = start >= len(text) || text[start] != '/'; !opens {
		start++
	}
	end := start
	for end < len(text) && end-start <= longest && isWordStart(text[end]) {
		end++
	}
	if n := end - start; n < shortest || n > longest {
		return -1, false, 0
	}
	for i, t := range reasoningTags {
		mark := t.open
		if !opens {
			mark = t.shut
		}
		if mark[start] == text[start]|0x20 && hasPrefixFold(text, mark) {
			return i, opens, len(mark)
		}
	}
	return -1, false, 0
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// indexFold finds mark in text without regard to case.
func indexFold(text, mark string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], mark[0]) // no letter
		if i < 0 {
			return -1
		}
		if hasPrefixFold(text[from+i:], mark) {
			return from + i
		}
		from += i + 1
	}
}

// The marks of the harmony format of gpt-oss.
const (
	channelMark = "<|channel|>"
	finalMark   = "<|channel|>final"
	messageMark = "<|message|>"

	assistantMark = "<|start|>assistant"
)

// finalChannel returns what the model wrote on the final channel, when the text
// is in the harmony format: only that is an answer.
func finalChannel(text string) (string, repairs, *Fault) {
	if looksJSON(text) {
		return text, 0, nil
	}
	if rest, ok := strings.CutPrefix(text, "analysis"); ok && strings.Count(rest, "assistantfinal") == 1 {
		// The marks themselves were stripped.
		if thought, final, _ := strings.Cut(rest, "assistantfinal"); !leavesOpen(lastLine(thought)) {
			return final, strippedReasoning, nil
		}
	}
	at := strings.Index(text, finalMark)
	if at < 0 || !hasAnyPrefix(text, channelMark, assistantMark) && leavesOpen(lastLine(text[:at])) {
		return text, 0, otherChannels(text)
	}
	if strings.Contains(text[at+1:], finalMark) || !beginsMessage(text[:at]) {
		return "", 0, Faultf(InvalidPlan, "it is not certain which part of the text is the final answer")
	}
	header := text[at+len(finalMark):]
	end := strings.Index(header, messageMark)
	if end < 0 {
		return "", 0, Faultf(Truncated, "the text ends before the final answer begins")
	}
	return header[end+len(messageMark):], strippedReasoning, nil
}

// beginsMessage reports whether a message of the harmony format may begin behind
// text: marks that are only quoted do not count.
func beginsMessage(text string) bool {
	text = strings.TrimRight(text, " \n")
	return text == "" || strings.HasSuffix(text, assistantMark) || endsWithToken(text)
}

func endsWithToken(text string) bool {
	at := strings.LastIndexByte(text, '<')
	return at >= 0 && endTokenAt(text[at:]) == len(text)-at
}

// otherChannels refuses a text in the harmony format that has no final channel.
func otherChannels(text string) *Fault {
	rest, start := strings.CutPrefix(text, assistantMark)
	switch {
	case !start && !strings.HasPrefix(text, channelMark):
		return nil
	case strings.Contains(rest, " to="):
		return Faultf(InvalidPlan, "the text is a tool call, not a plan")
	case endsWithToken(strings.TrimSpace(text)):
		return Faultf(NoPlan, "there is only reasoning and no answer")
	default:
		return Faultf(Truncated, "the text ends before the final answer begins")
	}
}
