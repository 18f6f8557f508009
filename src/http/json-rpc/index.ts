export { createRpcFront, type RpcFront, type RpcFrontOptions } from './front.ts';
