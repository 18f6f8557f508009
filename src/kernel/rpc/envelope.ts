import type { RpcFault } from '../calls/fault.ts';

/** A whole response object for a result that is JSON text already. `id` is raw JSON text and comes back as it was sent. */
export function rpcResultText(result: string, id: string): string {
  return `{"jsonrpc":"2.0","result":${result},"id":${id}}`;
}

/** A whole response object for an error. */
export function rpcErrorText(fault: RpcFault, id: string): string {
  const data = fault.details === undefined ? '' : `,"data":${JSON.stringify({ details: fault.details })}`;
  return `{"jsonrpc":"2.0","error":{"code":${fault.code},"message":${JSON.stringify(fault.message)}${data}},"id":${id}}`;
}
