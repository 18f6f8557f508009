export { createUpstreamPool, type OutageLog, type PoolOptions } from './pool.ts';
export { createChainReader, type ReaderOptions } from './reader.ts';
export { createRpcChainSource, type SourceOptions } from './source.ts';
