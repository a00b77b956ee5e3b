package settings

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/planbot-go/planbot/internal/entra"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

// documents is the name of the bot's own index among its sources.
const documents = "documents"

// UsesIndex reports whether the bot answers from an index of its own.
func (s *Settings) UsesIndex() bool {
	return s.KnowledgeOn || s.KnowledgeDir != "" || len(s.Bot.Documents) > 0
}

// KnowledgeBase makes what the bot can look up; nil: nothing. Its index is searched once
// [Settings.OpenIndex] was called.
func (s *Settings) KnowledgeBase() (*knowledge.Base, error) {
	cfg := s.Bot.Knowledge
	cfg.Sources = slices.Clone(cfg.Sources)
	if s.UsesIndex() {
		if s.index == nil {
			s.index = new(atomic.Pointer[knowledge.Index])
		}
		var names []string
		for _, f := range s.Folders() {
			names = append(names, f.Name)
		}
		cfg.Sources = append(cfg.Sources, knowledge.NamedSource{
			Name: documents, About: strings.Join(names, ", "), Source: lateIndex{s.index, s.AppID == "" && !s.Proven, s.knowledgeTenant()},
		})
	}
	if len(cfg.Sources) == 0 {
		return nil, nil
	}
	base, err := knowledge.New(cfg)
	if err != nil {
		return nil, Fault{fmt.Errorf("app.Bot.Knowledge: %w", err)}
	}
	return base, nil
}

// lateIndex is an index that is opened after planners are made.
type lateIndex struct {
	*atomic.Pointer[knowledge.Index]
	local  bool // nobody proves a tenant
	tenant string
}

var errNoIndex = errors.New("the index is not open")

// Search is that of the index. In local mode everybody is of its tenant: only this machine reaches the bot.
func (x lateIndex) Search(ctx context.Context, q knowledge.Query) ([]knowledge.Passage, error) {
	index := x.Load()
	if index == nil {
		return nil, errNoIndex
	}
	if x.local {
		q.Caller.Tenant = x.tenant
	}
	return index.Search(ctx, q)
}

func (s *Settings) knowledgeTenant() string {
	if s.KnowledgeTenant == "" && s.AppID != "" {
		return s.AppTenant
	}
	return s.KnowledgeTenant
}

// OpenIndex makes the bot's index in that store, for everything that [Settings.KnowledgeBase] has made and
// makes.
func (s *Settings) OpenIndex(store *state.Store) (*knowledge.Index, error) {
	cfg := knowledge.IndexConfig{Store: store, Tenant: s.knowledgeTenant(), Hybrid: s.KnowledgeHybrid}
	if s.EmbeddingModel != "" {
		e, err := s.Embedder()
		if err != nil {
			return nil, err
		}
		cfg.Embedder = e
	}
	index, err := knowledge.NewIndex(cfg)
	if err != nil {
		return nil, err
	}
	if s.index == nil {
		s.index = new(atomic.Pointer[knowledge.Index])
	}
	s.index.Store(index)
	return index, nil
}

// Embedder makes the embedding model of BOT_EMBEDDING_MODEL. A key is only sent to the server that it was
// set for.
func (s *Settings) Embedder() (*models.Embedder, error) {
	cfg := models.EmbedderConfig{Dimensions: s.EmbeddingDimensions, Retries: s.ModelRetries, MaxWait: s.ModelMaxWait}
	switch {
	case s.EmbeddingBaseURL != "" || s.EmbeddingKey != "":
		cfg.Server = models.OpenAIConfig{Key: s.EmbeddingKey, BaseURL: s.EmbeddingBaseURL}
	case s.AzureEndpoint != "":
		cfg.Server = models.OpenAIConfig{
			AzureEndpoint: s.AzureEndpoint, AzureKey: s.AzureKey, AzureVersion: s.AzureVersion, AzureDeployment: s.EmbeddingModel,
		}
		if s.EntraID() {
			cfg.Server.AzureToken, _ = entra.Token(s.Cloud, nil) // Check reports the error
		}
	default:
		cfg.Server = models.OpenAIConfig{Key: s.OpenAIKey, BaseURL: s.OpenAIBaseURL}
	}
	cfg.Server.Model = s.EmbeddingModel
	return models.NewEmbedder(cfg)
}

// Folders are what the bot itself adds to its index.
func (s *Settings) Folders() []knowledge.Folder {
	all := slices.Clone(s.Bot.Documents)
	for _, dir := range filepath.SplitList(s.KnowledgeDir) {
		if dir = strings.TrimSpace(dir); dir != "" {
			all = append(all, knowledge.Folder{Path: dir, Name: nameOf(dir), Access: s.KnowledgeAccess})
		}
	}
	return all
}

// nameOf is the name of a folder among those of an index.
func nameOf(dir string) string {
	if full, err := filepath.Abs(dir); err == nil {
		dir = full
	}
	return filepath.Base(dir)
}

// checkKnowledge reports what is wrong with the settings of knowledge. It does not look into the folders.
func (s *Settings) checkKnowledge(f *faults) {
	if s.KnowledgeDir != "" && len(s.KnowledgeAccess) == 0 && !f.has("BOT_KNOWLEDGE_ACCESS") {
		f.add("BOT_KNOWLEDGE_ACCESS", "is needed with BOT_KNOWLEDGE_DIR: everyone, nobody, or person:ID, team:ID, conversation:ID, group:NAME")
	}
	f.ask("BOT_KNOWLEDGE_ACCESS", knowledge.CheckAccess(s.KnowledgeAccess))
	seen := map[string]bool{}
	for _, folder := range s.Folders() {
		if name := strings.ToLower(folder.Name); seen[name] {
			f.add("BOT_KNOWLEDGE_DIR", "two folders are called %s", folder.Name)
		} else {
			seen[name] = true
		}
	}
	if s.UsesIndex() && s.AppID != "" && s.knowledgeTenant() == "" {
		f.add("BOT_KNOWLEDGE_TENANT", "is needed, as MICROSOFT_APP_TENANT_ID is not set: the tenant whose people may read the documents")
	}
	if s.KnowledgeOn && s.KnowledgeDir == "" && len(s.Bot.Documents) == 0 && s.RedisURL == "" && s.DataDir == "" {
		f.add("BOT_KNOWLEDGE", "needs REDIS_URL or BOT_DATA_DIR, where bot knowledge add puts documents; or set BOT_KNOWLEDGE_DIR")
	}
	if s.EmbeddingModel != "" {
		_, err := s.Embedder()
		if err != nil {
			_, list, _ := strings.Cut(err.Error(), "embedder config: ")
			for line := range strings.Lines(list) {
				f.add("BOT_EMBEDDING_MODEL", "%s", strings.Replace(strings.TrimSpace(line), "no Key for OpenAI", "needs OPENAI_API_KEY, or BOT_EMBEDDING_BASE_URL", 1))
			}
		}
	}
	if _, err := s.KnowledgeBase(); err != nil {
		*f = append(*f, err)
	}
}
