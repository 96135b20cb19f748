package grpcserver

import (
	"context"

	strandlinev1 "strandline.dev/api/strandline/v1"
	"strandline.dev/internal/node/settings"
	"strandline.dev/internal/node/verbs"
	"strandline.dev/internal/server/guard"
	"strandline.dev/internal/server/rpc"
)

type catalog interface {
	CreateLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error)
	ListLogs(ctx context.Context, c verbs.Caller, internal bool) ([]verbs.Info, error)
	ConfigureLog(ctx context.Context, c verbs.Caller, name string, config settings.Config) (verbs.Info, error)
	DeleteLog(ctx context.Context, c verbs.Caller, name string) error
}

type catalogService struct {
	strandlinev1.UnimplementedCatalogServiceServer
	node Node
}

func (d *catalogService) CreateLog(ctx context.Context, q *strandlinev1.CreateLogRequest) (*strandlinev1.CreateLogResponse, error) {
	config, refusal := decodeConfig(q.GetConfig())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	caller := guard.CallerOf(ctx)
	caller.Request = q.GetRequestId()
	info, err := d.node.CreateLog(ctx, caller, q.GetName(), config)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.CreateLogResponse{Info: encodeInfo(info)}, nil
}

func (d *catalogService) ListLogs(ctx context.Context, q *strandlinev1.ListLogsRequest) (*strandlinev1.ListLogsResponse, error) {
	logs, err := d.node.ListLogs(ctx, guard.CallerOf(ctx), q.GetIncludeInternal())
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	page, next, refusal := pageOf(logs, func(i verbs.Info) string { return i.Name }, encodeInfo, q.GetAfter(), q.GetLimit())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	return &strandlinev1.ListLogsResponse{Logs: page, Next: next}, nil
}

func (d *catalogService) ConfigureLog(ctx context.Context, q *strandlinev1.ConfigureLogRequest) (*strandlinev1.ConfigureLogResponse, error) {
	config, refusal := decodeConfig(q.GetConfig())
	if refusal != nil {
		return nil, rpc.StatusOf(ctx, refusal)
	}
	info, err := d.node.ConfigureLog(ctx, knowing(ctx, q.GetLogId()), q.GetName(), config)
	if err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return &strandlinev1.ConfigureLogResponse{Info: encodeInfo(info)}, nil
}

func (d *catalogService) DeleteLog(ctx context.Context, q *strandlinev1.DeleteLogRequest) (*strandlinev1.DeleteLogResponse, error) {
	if err := d.node.DeleteLog(ctx, knowing(ctx, q.GetLogId()), q.GetName()); err != nil {
		return nil, rpc.StatusOf(ctx, err)
	}
	return new(strandlinev1.DeleteLogResponse), nil
}
