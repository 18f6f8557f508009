import { GateRefusal, RPC_CODES, RpcError } from '../../../src/kernel/plugin.ts';

/** The JSON-RPC error object of whatever stopped a subscription. Errors without a meaning of their own are internal. */
export function errorText(error: unknown): string {
  const known = error instanceof GateRefusal ? gateError(error) : error;
  const { rpcCode, message, details } =
    known instanceof RpcError
      ? known
      : { rpcCode: RPC_CODES.internal.code, message: RPC_CODES.internal.message, details: undefined };
  return JSON.stringify({ code: rpcCode, message, ...(details === undefined ? {} : { data: { details } }) });
}

function gateError({ reason }: GateRefusal): RpcError {
  switch (reason) {
    case 'no-key':
    case 'bad-key':
      return new RpcError('unauthorized');
    case 'ip':
      return new RpcError('forbidden', { message: 'Forbidden: IP address not allowed for this API key' });
    case 'plan':
      return new RpcError('forbidden', { message: 'Forbidden: the plan does not include this method' });
    case 'permission':
      return new RpcError('forbidden', { message: 'Forbidden: this API key lacks permission for this method' });
    case 'credits':
      return new RpcError('tooManyRequests', { message: 'max usage reached' });
    case 'batch':
      return new RpcError('invalidRequest');
    case 'rate':
      return new RpcError('tooManyRequests');
  }
}
