import { ProtobufError } from '../../src/lib/protobuf.ts';
import { codeOf, GateRefusal } from '../../src/plugin/plugin.ts';
import { GrpcError, type StatusName } from './grpc-server.ts';

/** Coded errors of this plugin. */
export const STREAMS_ERRORS = {
  STREAMS_LISTEN: 'the address of streams.grpc cannot be listened on',
  STREAMS_TLS: 'the certificate or key of streams.grpc.tls cannot be used',
} as const;

export type StreamsErrorCode = keyof typeof STREAMS_ERRORS;

/** What a client is told of an error. */
export function statusOf(error: unknown): { readonly status: StatusName; readonly message: string } {
  if (error instanceof GrpcError) return error;
  if (error instanceof ProtobufError) return { status: 'invalidArgument', message: error.message };
  if (error instanceof GateRefusal) return statusOfRefusal(error);
  if (codeOf(error)?.startsWith('CHAIN_'))
    return { status: 'unavailable', message: 'no upstream has answered, try again later' };
  if (codeOf(error)?.startsWith('STORE_')) return { status: 'unavailable', message: 'try again later' };
  return { status: 'internal', message: 'internal error' };
}

function statusOfRefusal({ reason, details }: GateRefusal): { readonly status: StatusName; readonly message: string } {
  switch (reason) {
    case 'no-key':
    case 'bad-key':
      return { status: 'unauthenticated', message: 'No valid auth token' };
    case 'ip':
      return { status: 'permissionDenied', message: 'this address may not use the key' };
    case 'plan':
    case 'permission':
      return { status: 'permissionDenied', message: details ?? 'the key has no permission for streams' };
    case 'credits':
      return { status: 'resourceExhausted', message: 'max usage reached' };
    default:
      return { status: 'resourceExhausted', message: details ?? 'too many requests' };
  }
}
