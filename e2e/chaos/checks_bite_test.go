//go:build linux

package chaos_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// calm is a story in which nothing is wrong: two messages and the lists.
func calm() story {
	first, second, last := key{2, 1}, key{2, 2}, key{2, 3}
	reply := func(to key, text string, at times) post {
		return post{conversation: conversation(to.talk), replyTo: to.id(), text: text, at: at, done: at + 5*ms, outcome: taken}
	}
	return story{
		messages: []message{
			{key: first, kind: both, sent: 1 * ms, acked: 2 * ms},
			{key: second, kind: note, sent: 3 * ms, acked: 4 * ms},
			{key: last, kind: show, sent: 2000 * ms, acked: 2001 * ms},
		},
		calls: []call{
			{key: first, at: 5 * ms, burst: []key{first}},
			{second, 1100 * ms, []key{first}, []key{second}},
			{last, 2010 * ms, []key{first, second}, []key{last}},
		},
		posts: []post{
			reply(first, "c2-0001 is noted", 1000*ms),
			reply(first, "c2-0001 is noted twice", 1010*ms),
			reply(second, "c2-0002 is noted", 1200*ms),
			reply(last, "**once**\n- c2-0001\n- c2-0002\n\n**twice**\n- c2-0001", 2020*ms),
		},
	}
}

// again is the reply at i once more, at a time of the test's choice.
func (s *story) again(i int, at times) {
	p := s.posts[i]
	p.at, p.done = at, at
	s.posts = append(s.posts, p)
}

// refused is a try of the reply at i that came to nothing before.
func (s *story) refused(i int, at times) {
	p := s.posts[i]
	p.at, p.done, p.outcome = at, at, refused
	s.posts = append(s.posts, p)
}

func TestChecksBite(t *testing.T) {
	t.Parallel()
	kill := fault{"SIGKILL", 1205 * ms, 1206 * ms}
	for name, c := range map[string]struct {
		spoil  func(*story)
		checks []check
		broken []string // words of what is found, by check; none: nothing is
	}{
		"calm":                 {func(*story) {}, promises(), nil},
		"calm, other promises": {func(*story) {}, []check{answers(), oneRetry(), within(500 * ms)}, nil},
		"never taken":          {func(s *story) { s.messages[1].acked = 0 }, promises(), []string{"c2-0002 was never acknowledged"}},
		"a lost turn":          {func(s *story) { s.posts = slices.Delete(s.posts, 2, 3) }, spoken(), []string{"c2-0002, acknowledged at 4ms, was never answered", "list once"}},
		"a hole":               {func(s *story) { s.posts = slices.Delete(s.posts, 0, 1) }, promises(), []string{"c2-0001, acknowledged at 2ms, was answered with"}},
		"a refused reply":      {func(s *story) { s.posts[1].outcome = refused }, promises(), []string{"c2-0001, acknowledged at 2ms, was answered with"}},
		"parts in wrong order": {func(s *story) { s.posts[0].text, s.posts[1].text = s.posts[1].text, s.posts[0].text }, promises(), []string{"c2-0001, acknowledged at 2ms, was answered with"}},
		"overtaken":            {func(s *story) { s.posts[2].at = 900 * ms }, promises(), []string{"c2-0002 was answered at 900ms, before c2-0001", "first reply", "asked of c2-0001", "asked of c2-0002", "asked of c2-0003", "another order"}},
		"overtaken, at once":   {func(s *story) { s.messages[1].sent = 1 * ms; s.posts[2].at = 1005 * ms }, promises(), []string{"the replies to c2-0001 from 1s to 1.01s were interrupted by c2-0002", "after the first reply"}},
		"twice for nothing":    {func(s *story) { s.again(2, 1900*ms) }, promises(), []string{"a reply was sent again"}},
		"twice for a kill":     {func(s *story) { s.faults = []fault{kill}; s.again(2, 1900*ms) }, promises(), nil},
		"twice, long after": {func(s *story) {
			s.faults = []fault{{"SIGKILL", 4 * time.Second, 4 * time.Second}}
			s.again(2, 5*time.Second)
		}, promises(), []string{"a reply was sent again"}},
		"two for one kill":    {func(s *story) { s.faults = []fault{kill}; s.again(2, 1900*ms); s.again(1, 1900*ms) }, promises(), []string{"a reply was sent again"}},
		"two for two kills":   {func(s *story) { s.faults = []fault{kill, kill}; s.again(2, 1900*ms); s.again(1, 1900*ms) }, promises(), nil},
		"thrice for one kill": {func(s *story) { s.faults = []fault{kill}; s.again(2, 1500*ms); s.again(2, 1900*ms) }, promises(), []string{"a reply was sent again"}},
		"twice for a reset":   {func(s *story) { s.posts[2].outcome = dropped; s.again(2, 1900*ms); s.posts[4].outcome = taken }, promises(), nil},
		"stuck":               {func(s *story) { s.posts[3].at += 16 * time.Second }, promises(), []string{"c2-0003 was answered at 18.02s, although nothing stood in its way since 2.001s"}},
		"stuck, a fault":      {func(s *story) { s.posts[3].at += 16 * time.Second; s.faults = []fault{{"Redis", 2100 * ms, 9000 * ms}} }, promises(), nil},
		"refused, then soon":  {func(s *story) { s.posts[3].at += 16 * time.Second; s.refused(3, 9000*ms) }, promises(), nil},
		"refused, then stuck": {func(s *story) { s.posts[3].at += 26 * time.Second; s.refused(3, 9000*ms) }, promises(), []string{"c2-0003 was answered at 28.02s, although nothing stood in its way since 9s"}},
		"a fault told":        {func(s *story) { s.again(2, 1900*ms); s.posts[4].text = "Sorry (turn 3d7r6cwcydr5)" }, promises(), []string{"was answered with", "into conversation-2"}},
		"to nobody's message": {func(s *story) { s.posts[3].replyTo = "else" }, spoken(), []string{"c2-0003, acknowledged at 2.001s, was never answered", `in answer to "else"`, "list once", "list twice"}},
		"in a wrong place":    {func(s *story) { s.posts[2].conversation = "conversation-1" }, promises(), []string{"into conversation-1"}},
		"asked after a reply": {func(s *story) { s.calls[1].at = 1300 * ms }, promises(), []string{"after the first reply"}},
		"asked twice": {func(s *story) {
			s.calls = slices.Insert(s.calls, 1, call{s.calls[0].key, 700 * ms, nil, []key{s.calls[0].key}})
		}, promises(), []string{"2 times"}},
		"asked twice, a kill": {func(s *story) {
			s.calls = slices.Insert(s.calls, 1, call{s.calls[0].key, 700 * ms, nil, []key{s.calls[0].key}})
			s.faults = []fault{{"SIGKILL", 20 * ms, 21 * ms}}
		}, promises(), nil},
		"a turn forgotten":      {func(s *story) { s.calls[2].history = s.calls[2].history[1:] }, promises(), []string{"the model was told of [c2-0002], not of [c2-0001 c2-0002]"}},
		"an item lost":          {func(s *story) { s.posts[3].text = strings.Replace(s.posts[3].text, "- c2-0002\n", "", 1) }, promises(), []string{"[c2-0002] are missing"}},
		"an item twice":         {func(s *story) { s.posts[3].text += "\n- c2-0001" }, promises(), []string{"[c2-0001] too many"}},
		"items in wrong order":  {func(s *story) { s.posts[3].text = "**once**\n- c2-0002\n- c2-0001\n\n**twice**\n- c2-0001" }, promises(), []string{"another order"}},
		"another error":         {func(s *story) { s.messages[0].failures = []failure{{status: 500}} }, []check{answers(0, 503)}, []string{"c2-0001: status 500"}},
		"an error too many":     {func(s *story) { s.messages[0].failures = []failure{{status: 503}, {status: 503}} }, []check{answers(0, 503), oneRetry()}, []string{"[{503 } {503 }]"}},
		"alone":                 {func(s *story) { s.alone = []key{{2, 1}} }, []check{sideBySide()}, []string{"while the model thought of c2-0001"}},
		"a late acknowledgment": {func(s *story) { s.messages[0].acked = 501 * ms }, []check{within(500 * ms)}, []string{"after 500ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calm()
			c.spoil(&s)
			var broken []string
			for _, c := range c.checks {
				broken = append(broken, c.broken(s)...)
			}
			bites(t, broken, c.broken...)
		})
	}
}

// bites fails the test unless these words are in what was found, each in one, and nothing else was.
func bites(t *testing.T, found []string, words ...string) {
	t.Helper()
	for _, w := range words {
		i := slices.IndexFunc(found, func(f string) bool { return strings.Contains(f, w) })
		if i < 0 {
			t.Fatalf("nothing of %q says %q", found, w)
		}
		found = slices.Delete(found, i, i+1)
	}
	if len(found) > 0 {
		t.Errorf("also found %q", found)
	}
}

func TestBurstsBite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil  func(*story)
		broken []string
	}{
		"calm":          {func(*story) {}, nil},
		"more, a crash": {func(s *story) { s.calls = slices.Insert(s.calls, 0, call{key: key{2, 1}, burst: []key{{2, 1}}}) }, nil},
		"fewer, a crash": {func(s *story) {
			s.calls = slices.Insert(s.calls, 0, call{key: key{2, 1}, burst: []key{{2, 1}, {2, 2}, {2, 3}}})
		}, []string{"c2-0001 was asked of in [c2-0001 c2-0002 c2-0003], and then in [c2-0001 c2-0002]"}},
		"apart": {func(s *story) { s.calls[0].burst = []key{{2, 1}} }, []string{"c2-0001 was asked of in [c2-0001], and c2-0002 in", "in reply to activity-c2-0002", "in reply to activity-c2-0002"}},
		"in wrong order": {func(s *story) {
			slices.Reverse(s.calls[0].burst)
			s.posts[0].replyTo, s.posts[1].replyTo, s.posts[2].replyTo = "activity-c2-0001", "activity-c2-0001", "activity-c2-0001"
		}, []string{"c2-0001 came before c2-0002"}},
		"somebody else's": {func(s *story) {
			mine, other := key{crowded, 6}, key{crowded, 7}
			s.messages[0].key, s.messages[1].key, s.posts = mine, other, nil
			s.calls = []call{{key: mine, burst: []key{mine, other}}, {key: other, burst: []key{mine, other}}}
		}, []string{"c1000-0007 is of somebody else"}},
		"a click": {func(s *story) { s.messages[1].kind = click }, []string{"c2-0002 is a click"}},
		"across a command": {func(s *story) {
			s.messages[1].sent, s.messages[1].acked = 10*ms, 11*ms
			s.messages[2].kind, s.messages[2].sent, s.messages[2].acked = help, 5*ms, 6*ms
		}, []string{"across c2-0003"}},
		"two replies": {func(s *story) { s.posts[0].replyTo = "activity-c2-0001" }, []string{"c2-0001 was answered in reply to activity-c2-0001"}},
	} {
		s := calm()
		together := []key{s.messages[0].key, s.messages[1].key}
		s.calls[0].burst, s.calls[1].burst = together, together
		s.posts[0].replyTo, s.posts[1].replyTo = together[1].id(), together[1].id()
		c.spoil(&s)
		t.Run(name, func(t *testing.T) { bites(t, torn(s), c.broken...) })
	}
}

func TestStopsBite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil  func(*story)
		broken []string
	}{
		"calm":         {func(*story) {}, nil},
		"a step later": {func(s *story) { s.steps[1].at = 1300 * ms }, []string{"step 2 of c1000-0001 began at 1.3s, after"}},
		"a step after a word": {func(s *story) {
			s.again(2, 590*ms)
			s.posts[3].replyTo, s.posts[3].text = "activity-c1000-0003", stopsSoon
		}, []string{"step 2 of c1000-0001 began at 600ms, after the answer to c1000-0003"}},
		"a step after nothing": {func(s *story) { s.again(2, 590*ms); s.posts[3].replyTo = "activity-c1000-0003" }, []string{"step 2 of c1000-0001 began at 600ms, after the answer to c1000-0003"}},
		"not done":             {func(s *story) { s.steps = s.steps[:1] }, []string{"c1000-0001 took [step 1], and it was said"}},
		"done all the same":    {func(s *story) { s.steps = append(s.steps, step{key{crowded, 1}, 3, 700 * ms}) }, []string{"c1000-0001 took [step 1 step 2 step 3], and"}},
		"done without a word":  {func(s *story) { s.posts[1].text = stopped }, []string{"c1000-0001 took [step 1 step 2], and it was said"}},
		"not sure": {func(s *story) {
			s.posts[1].text = stopped + " Before that I did: Step 1. I cannot tell whether this was done: Step 2."
		}, nil},
		"a SAY of nothing":       {func(s *story) { s.posts[0].text = "c1000-0001 has step 3" }, []string{"c1000-0001 took [step 1 step 2], and it was said"}},
		"stopped by the other":   {func(s *story) { s.messages[1].n = 14 }, []string{"nobody who may stopped c1000-0001", "c1000-0014, acknowledged at 501ms, stopped nothing"}},
		"stopped before it came": {func(s *story) { s.messages[0].sent = 502 * ms }, []string{"nobody who may stopped c1000-0001", "c1000-0003, acknowledged at 501ms, stopped nothing"}},
		"stopped nothing":        {func(s *story) { s.posts = slices.Delete(s.posts, 1, 2) }, []string{"c1000-0003, acknowledged at 501ms, stopped nothing"}},
	} {
		m, by, other := key{crowded, 1}, key{crowded, 3}, key{crowded, 7}
		s := story{
			messages: []message{
				{key: m, kind: work, sent: 1 * ms, acked: 2 * ms},
				{key: by, kind: stop, sent: 500 * ms, acked: 501 * ms},
				{key: other, kind: stop, sent: 550 * ms, acked: 551 * ms},
			},
			steps: []step{{m, 1, 100 * ms}, {m, 2, 600 * ms}},
			posts: []post{
				{replyTo: m.id(), text: "c1000-0001 has step 1", at: 550 * ms},
				{replyTo: m.id(), text: "I stopped. Before that I did: Step 1, Step 2. I did not do this: Step 3.", at: 1200 * ms},
				{replyTo: other.id(), text: nothingRuns, at: 590 * ms},
			},
		}
		c.spoil(&s)
		var broken []string
		for _, one := range stopping() {
			broken = append(broken, one.broken(s)...)
		}
		t.Run(name, func(t *testing.T) { bites(t, broken, c.broken...) })
	}
}

func TestScreensBite(t *testing.T) {
	t.Parallel()
	first, second := key{0, 1}, key{0, 2}
	kill := fault{"SIGKILL", 1000 * ms, 1001 * ms}
	partial := func(began times, parts int) *bubble {
		return &bubble{conversation: conversation(0), id: "3", text: "c0-0003, and", open: true, parts: parts, asked: began, begun: began + 10*ms}
	}
	for name, c := range map[string]struct {
		spoil  func(*screens, *story)
		broken string // "": nothing
	}{
		"calm":               {func(*screens, *story) {}, ""},
		"left growing":       {func(s *screens, _ *story) { s.bubbles = append(s.bubbles, partial(900*ms, 2)) }, "3 in conversation-0"},
		"nobody knows it":    {func(s *screens, _ *story) { s.bubbles = append(s.bubbles, partial(990*ms, 1)) }, ""},
		"begun after a kill": {func(s *screens, _ *story) { s.bubbles = append(s.bubbles, partial(1100*ms, 1)) }, "3 in conversation-0"},
		"somebody knew it":   {func(s *screens, _ *story) { s.bubbles = append(s.bubbles, partial(990*ms, 2)) }, "3 in conversation-0"},
		"lost":               {func(s *screens, _ *story) { s.bubbles = s.bubbles[:1] }, "c0-0002: []"},
		"lost, no plan": {func(s *screens, _ *story) {
			s.bubbles, s.planned = s.bubbles[:1], map[string][]*reply{first.id(): s.planned[first.id()]}
		}, "c0-0002: []"},
		"not all of it":     {func(s *screens, _ *story) { s.bubbles[0].text = "c0-0001, and" }, `c0-0001: ["c0-0001, and"]`},
		"of an earlier try": {func(s *screens, _ *story) { s.bubbles[1].text = "c0-0002, try 1" }, `c0-0002: ["c0-0002, try 1"]`},
		"of two tries": {func(s *screens, _ *story) {
			s.bubbles = append(s.bubbles, &bubble{id: "3", replyTo: second.id(), text: "c0-0002, try 1", ended: 1500 * ms})
		}, "c0-0002: ["},
		"twice for a kill": {func(s *screens, _ *story) { s.bubbles = append(s.bubbles, s.bubbles[1]) }, ""},
		"thrice for a kill": {func(s *screens, _ *story) {
			s.bubbles = append(s.bubbles, s.bubbles[1], s.bubbles[1])
		}, "for 1 kills"},
		"twice for nothing": {func(s *screens, seen *story) { s.bubbles, seen.faults = append(s.bubbles, s.bubbles[1]), nil }, "for 0 kills"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &screens{record: newRecord(), bubbles: []*bubble{
				{id: "1", replyTo: first.id(), text: "c0-0001, and all of it", parts: 3, ended: 500 * ms},
				{id: "2", replyTo: second.id(), text: "c0-0002, try 2", ended: 1500 * ms},
			}, planned: map[string][]*reply{
				first.id():  {{says: []string{"c0-0001, and all of it"}, whole: true}},
				second.id(): {{says: []string{"c0-0002, try 1"}, whole: true}, {says: []string{"c0-0002, try 2"}, whole: true}, {says: []string{"c0-0002, try 3"}}},
			}}
			seen := story{messages: []message{{key: first, kind: ask}, {key: second, kind: ask}}, faults: []fault{kill}}
			c.spoil(s, &seen)
			var broken []string
			for _, c := range s.promises() {
				broken = append(broken, c.broken(seen)...)
			}
			if found := strings.Join(broken, "\n"); !strings.Contains(found, c.broken) || c.broken == "" && found != "" {
				t.Errorf("found %q, want words of %q", found, c.broken)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	for at, want := range map[times]bool{999 * ms: false, 1005 * ms: true, 1100 * ms: false, 2020 * ms: false} {
		s := calm()
		s.faults = []fault{{"SIGKILL", at, at}}
		if got := s.interrupted(); got != want {
			t.Errorf("killed at %s: %t", at, got)
		}
	}
}
