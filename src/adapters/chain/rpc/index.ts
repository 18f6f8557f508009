export { createUpstreamPool, type OutageLog, type UpstreamPoolOptions } from './pool.ts';
export { type ChainReaderOptions, createChainReader } from './reader.ts';
export { createRpcChainSource, type SourceOptions } from './source.ts';
