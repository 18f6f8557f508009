/** Coded errors of this plugin. */
export const STREAMS_ERRORS = {
  STREAMS_LISTEN: 'the address of streams.grpc cannot be listened on',
  STREAMS_TLS: 'the certificate or key of streams.grpc.tls cannot be used',
} as const;

export type StreamsErrorCode = keyof typeof STREAMS_ERRORS;
