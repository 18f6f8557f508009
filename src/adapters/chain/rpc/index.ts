export { createUpstreamPool, type OutageBook, type PoolOptions } from './pool.ts';
export { createChainReader, type ReaderOptions } from './reader.ts';
export { createRpcChainSource, type SourceOptions } from './source.ts';
