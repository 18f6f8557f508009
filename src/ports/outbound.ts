/** A request to an address chosen by a user. All such requests must use this client. */
export interface OutboundRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** One deadline for DNS, connect, TLS, headers and body. */
  readonly timeoutMs: number;
  /** Number of response bytes to keep; the rest is discarded. */
  readonly keepBytes: number;
  /** Bytes after which the response is cut off. */
  readonly maxBytes: number;
  /** Status and headers suffice: a body that does not end is cut off without a failure. */
  readonly bodyOptional?: boolean;
  readonly signal?: AbortSignal;
}

export interface OutboundResponse {
  readonly status: number;
  /** Names in lower case; repeated headers joined by ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** At most `keepBytes`. */
  readonly body: Buffer;
  /** Whether `body` is incomplete. */
  readonly truncated: boolean;
}

/** What a client may connect to; set by the plugin that opens it. */
export interface OutboundPolicy {
  /** Networks that are allowed despite the block list. */
  readonly allowCidrs: readonly string[];
  readonly allowHttp: boolean;
  /** Allow only these origins (`https://host:port`); absent: all that the other members allow. */
  readonly onlyOrigins?: readonly string[];
  readonly allowPorts: readonly number[] | null;
  /** PEM file with additional certificate authorities. */
  readonly caFile: string | null;
  /** Maximum number of sockets per target. */
  readonly maxConnections: number;
  /** Config section of `allowCidrs`, named in the refusal text. */
  readonly section?: string;
}

export type OutboundFailure =
  | 'OUTBOUND_BAD_URL'
  | 'OUTBOUND_BLOCKED_ADDRESS'
  | 'OUTBOUND_DNS'
  | 'OUTBOUND_CONNECT'
  | 'OUTBOUND_TLS'
  | 'OUTBOUND_TIMEOUT'
  | 'OUTBOUND_RESET'
  | 'OUTBOUND_BAD_RESPONSE'
  | 'OUTBOUND_TOO_LARGE';

/** The guarded client: it checks addresses when the socket connects, and never follows redirects. */
export interface OutboundClient {
  /** Throws a CodedError with an `OutboundFailure` code. */
  request(request: OutboundRequest): Promise<OutboundResponse>;
  /** Checks scheme, port, user info and literal addresses without a DNS lookup. Returns the reason of a refusal, or null. */
  refusal(url: string): string | null;
  close(): Promise<void>;
}

export interface Outbound {
  open(policy: OutboundPolicy): OutboundClient;
}
