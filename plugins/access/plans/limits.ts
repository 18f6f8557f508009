/** What a project may use: its plan with its own values laid over. null = no limit. */
export interface Limits {
  readonly plan: string;
  /** Credits of a cycle. */
  readonly creditsLimit: number;
  /** Credits of a cycle beyond those and the prepaid ones. */
  readonly overageCredits: number;
  readonly invoiced: boolean;
  /** Last segments of wallet routes that the plan lacks; null when it has all. */
  readonly refusedWallet: ReadonlySet<string> | null;
  /** By group; a missing group has no limit, 0 means that the plan lacks its methods. */
  readonly ratePerSecond: ReadonlyMap<string, number>;
  readonly burstFactor: number;
  readonly webhooks: { readonly max: number | null; readonly addressesPerWebhook: number };
  readonly batch: BatchLimits;
}

export interface BatchLimits {
  readonly maxItems: number | null;
  /** Items of methods that read the archive, `getTransaction` apart. */
  readonly historicalMax: number | null;
  readonly getTransactionMax: number | null;
  readonly notBatchable: ReadonlySet<string>;
}
