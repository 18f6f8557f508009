/**
 * Addresses of programs, sysvars, mints and clusters, base58: the only place of the source where they stand. A test compares every key of the
 * tree with this list.
 */

// Programs and loaders of the runtime, and its sysvars.
export const SYSTEM_PROGRAM = '11111111111111111111111111111111';
export const VOTE_PROGRAM = 'Vote111111111111111111111111111111111111111';
export const STAKE_PROGRAM = 'Stake11111111111111111111111111111111111111';
export const STAKE_CONFIG = 'StakeConfig11111111111111111111111111111111';
export const CONFIG_PROGRAM = 'Config1111111111111111111111111111111111111';
export const COMPUTE_BUDGET_PROGRAM = 'ComputeBudget111111111111111111111111111111';
export const LOOKUP_TABLE_PROGRAM = 'AddressLookupTab1e1111111111111111111111111';
export const NATIVE_LOADER = 'NativeLoader1111111111111111111111111111111';
export const LOADER_V1 = 'BPFLoader1111111111111111111111111111111111';
export const LOADER_V2 = 'BPFLoader2111111111111111111111111111111111';
export const LOADER_V3 = 'BPFLoaderUpgradeab1e11111111111111111111111';
export const LOADER_V4 = 'LoaderV411111111111111111111111111111111111';
export const ED25519_PROGRAM = 'Ed25519SigVerify111111111111111111111111111';
export const SECP256K1_PROGRAM = 'KeccakSecp256k11111111111111111111111111111';
export const SECP256R1_PROGRAM = 'Secp256r1SigVerify1111111111111111111111111';
export const ZK_ELGAMAL_PROGRAM = 'ZkE1Gama1Proof11111111111111111111111111111';
export const ZK_TOKEN_PROGRAM = 'ZkTokenProof1111111111111111111111111111111';
export const VALIDATOR_INFO = 'Va1idator1nfo111111111111111111111111111111';
export const SYSVAR_OWNER = 'Sysvar1111111111111111111111111111111111111';
export const CLOCK_SYSVAR = 'SysvarC1ock11111111111111111111111111111111';
export const EPOCH_REWARDS_SYSVAR = 'SysvarEpochRewards1111111111111111111111111';
export const EPOCH_SCHEDULE_SYSVAR = 'SysvarEpochSchedu1e111111111111111111111111';
export const FEES_SYSVAR = 'SysvarFees111111111111111111111111111111111';
export const LAST_RESTART_SLOT_SYSVAR = 'SysvarLastRestartS1ot1111111111111111111111';
export const RECENT_BLOCKHASHES_SYSVAR = 'SysvarRecentB1ockHashes11111111111111111111';
export const RENT_SYSVAR = 'SysvarRent111111111111111111111111111111111';
export const SLOT_HASHES_SYSVAR = 'SysvarS1otHashes111111111111111111111111111';
export const SLOT_HISTORY_SYSVAR = 'SysvarS1otHistory11111111111111111111111111';
export const STAKE_HISTORY_SYSVAR = 'SysvarStakeHistory1111111111111111111111111';
/** Nearly every transaction names them: their history is that of the chain, so neither ledger nor archive keeps one. */
export const WITHOUT_HISTORY: readonly string[] = [SYSTEM_PROGRAM, VOTE_PROGRAM, CLOCK_SYSVAR, SLOT_HASHES_SYSVAR];
/** Holds the certificate of the last TowerBFT block once a cluster has moved to Alpenglow; owned by the System program. */
export const ALPENGLOW_CERTIFICATE = '42Ym56TQ7AKFThRv5nyoSABq5ZPgE2TLKo8BALZEtoU1';

// Solana Program Library.
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA';
export const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb';
export const ASSOCIATED_TOKEN_PROGRAM = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL';
export const MEMO_V1_PROGRAM = 'Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo';
export const MEMO_V3_PROGRAM = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';
export const MEMO_V4_PROGRAM = 'Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH';
/** Every memo program that nodes show as `spl-memo`; the third is the default of @solana-program/memo since 0.15. */
export const MEMO_PROGRAMS: readonly string[] = [MEMO_V1_PROGRAM, MEMO_V3_PROGRAM, MEMO_V4_PROGRAM];
export const STAKE_POOL_PROGRAM = 'SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy';
export const NOOP_PROGRAM = 'noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV';
export const ACCOUNT_COMPRESSION_PROGRAM = 'cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK';
export const NAME_PROGRAM = 'namesLPneVptA9Z5rqUDD9tMTWEJwofgaYwp8cawRkX';
export const PROGRAM_METADATA_PROGRAM = 'ProgM6JCCvbYkfKqJYHePx4xxSUSqJp7rh8Lyv7nk7S';

// Metaplex.
export const METADATA_PROGRAM = 'metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s';
export const CORE_PROGRAM = 'CoREENxT6tW1HoK8ypY1SxRMZTcVPm7R94rH4PZNhX7d';
export const INSCRIPTION_PROGRAM = 'inscokhJarcjaEs59QbQ7hYjrKz25LEPRfCbP8EmdUp';
export const BUBBLEGUM_PROGRAM = 'BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY';
export const MPL_COMPRESSION_PROGRAM = 'mcmt6YrQEMKw8Mw43FmpRLmf7BqRnFMKmAcbxE3xkAW';
export const MPL_NOOP_PROGRAM = 'mnoopTCrg4p8ry25e4bcWA9XZjbNjMTfgYVGGEdRsf3';

// Light Protocol: compressed accounts.
export const LIGHT_COMPRESSION_PROGRAM = 'compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq';
export const LIGHT_TOKEN_PROGRAM = 'cTokenmWW8bLPjZEBAUgYy3zKxQZW6VKi7bqNFEVv3m';
export const LIGHT_REGISTRY_PROGRAM = 'Lighton6oQpVkeewmo2mcPTQQp7kYHr4fWpAgJyEmDX';
export const LIGHT_SYSTEM_PROGRAM = 'SySTEM1eSU2p4BGQfQpimFEWWSC1XDFeun3Nqzz3rT7';
export const LIGHT_REGISTERED_PROGRAM = '35hkDgaAKwMCaxRz2ocSZ6NaUrtKkyNqU6c4RV3tYJRh';
export const LIGHT_GROUP = '24rt4RgeyjUCWGS2eF7L7gyNMuz6JWdqYpAvb1KRoHxs';
export const LIGHT_STATE_TREE = 'smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT';
export const LIGHT_STATE_QUEUE = 'nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148';
export const LIGHT_ADDRESS_TREE = 'amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2';

// Name services. SRS is the registry that `.sol` names moved to; the tokenizer issues tokens for names, the favourite program stores the
// favourite name of a wallet. The classes are those of reverse entries and of the second generation of records.
export const SRS_PROGRAM = 'srsWjm76StJucL7atFyPSdXFaVLNPFqEt1uFEDPrZsn';
export const SRS_CLASS = 'AjheAtCgSwEcEYd6xi6thcQW25ELWd7wKCx6SKBGUtMQ';
export const NAME_ROOT = '58PwtjSDuFHuUkYjH9BYnnQKHfwo9reZhC2zMJv9JPkx';
export const REVERSE_CLASS = '33m47vH6Eav6jr5Ry86XjhRft2jRBLDnDgPSHoquXi2Z';
export const TOKENIZER_PROGRAM = 'nftD3vbNkNqfj2Sd3HZwbpw4BxxKWr4AjGb9X38JeZk';
export const FAVOURITE_PROGRAM = '85iDfUvr3HJyLM2zcq5BXSiDvUWfw6cSE1FfNBo8Ap29';
export const RECORDS_CLASS = '2pMnqHvei2N5oDcVGCRdZx48gqti199wr5CsyTTafsbo';

// Markets, aggregators, stake pools, lending, multisignatures.
export const JUPITER_V6 = 'JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4';
export const JUPITER_V2 = 'JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo';
export const JUPITER_LIMIT_V2 = 'j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X';
export const JUPITER_DCA = 'DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M';
export const JUPITER_LEND_DEPOSITS = 'jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9';
export const JUPITER_LEND_VAULTS = 'jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi';
export const JUPITER_PERPETUALS = 'PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu';
export const KAMINO_LEND = 'KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD';
export const MARGINFI = 'MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA';
export const SOLEND = 'So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo';
export const DRIFT = 'dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH';
export const RAYDIUM_CLMM = 'CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK';
export const RAYDIUM_CPMM = 'CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C';
export const RAYDIUM_AMM_V4 = '675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8';
export const METEORA_DLMM = 'LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo';
export const METEORA_POOLS = 'Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB';
export const METEORA_DAMM_V2 = 'cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG';
export const INVARIANT = 'HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt';
export const PHOENIX = 'PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY';
export const OPENBOOK = 'srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX';
export const OPENBOOK_V2 = 'opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb';
export const ORCA_WHIRLPOOLS = 'whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc';
export const PUMP_FUN = '6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P';
export const PUMP_AMM = 'pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA';
export const SANCTUM_INFINITY = '5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx';
export const SANCTUM_ROUTER = 'stkitrT1Uoy18Dk1fTrgPw8W6MVzoCfYoAFT4MLsmhq';
export const SANCTUM_SINGLE_POOL = 'SP12tWFxD9oJsVWNavTTBZvMbA6gkAmxtVgxdqvyvhY';
export const SANCTUM_MULTI_POOL = 'SPMBzsVUuoHA4Jm6KunbsotaahvVikZs1JyTW6iJvbn';
export const MARINADE = 'MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD';
export const SQUADS_V4 = 'SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf';
export const MAGIC_EDEN_V2 = 'M2mx93ekt1fmXSVkTrUL9xVFHkmME8HTUi5Cyc5aF7K';
export const TENSOR_COMPRESSED = 'TCMPhJdwDryooaGtiocG1u3xcYbRpiJzb283XfCZsDp';
export const PHANTOM = 'DeJBGdMFa1uynnnKiwrVioatTuHmNLpyFKnmB5kaFdzQ';

// Mints. `NATIVE_SOL_MINT` is no account: the hosted API names SOL that is not wrapped so.
export const WRAPPED_SOL_MINT = 'So11111111111111111111111111111111111111112';
export const NATIVE_SOL_MINT = 'So11111111111111111111111111111111111111111';
export const WRAPPED_SOL_2022_MINT = '9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9';
/** USDC of devnet and testnet, and what the official payment clients take for USDC on a local chain. */
export const USDC_DEVNET_MINT = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU';
export const USDC_MINT = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v';
export const USDT_MINT = 'Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB';
export const PYUSD_MINT = '2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo';

// Genesis hashes of the public clusters.
export const MAINNET_GENESIS = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d';
export const DEVNET_GENESIS = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG';
export const TESTNET_GENESIS = '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY';
/** What explorers call the public clusters in their links. They know no other chain. */
export const EXPLORER_CLUSTERS: ReadonlyMap<string, string> = new Map([
  [MAINNET_GENESIS, 'mainnet-beta'],
  [DEVNET_GENESIS, 'devnet'],
  [TESTNET_GENESIS, 'testnet'],
]);

/** Published names of programs and authorities, with their addresses, without mints (`*_TOKEN`) and the empty entry. */
export const PROGRAM_ADDRESSES = {
  METAPLEX: 'p1exdMJcjVao65QdewkaZRUnU6VPSXhus9n2GzWfh98',
  METAPLEX_AUCTION_HOUSE: 'hausS13jsjafwWwGqZTUQRmWyvyxn9EQpqMwV1PBBmk',
  EXCHANGE_ART_AUCTION: 'exAuvFHqXXbiLrM4ce9m1icwuSyXytRnfBkajukDFuB',
  EXCHANGE_ART_OFFER: 'exofLDXJoFji4Qyf9jSAH59J4pp82UT5pmGgR6iT24Z',
  EXCHANGE_ART_INSTANT_SALE: 'AmK5g2XcyptVLCFESBCJqoSfwV3znGoVYQnqEnaAZKWn',
  EXCHANGE_ART_MINT: 'EXBuYPNgBUXMTsjCbezENRUtFQzjUNZxvPGTd11Pznk5',
  FORM_FUNCTION: 'formn3hJtt8gvVKxpCfzCJGuoz6CNUFcULFZW18iTpC',
  SOLANART: 'CJsLwbP1iu5DuUikHEJnLfANgKy6stB2uFgvBBHoyxwz',
  SOLANART_GLOBAL_OFFER: '5ZfZAwP2m93waazg8DkrrVmsupeiPEvaEHowiUP7UAbJ',
  SOLSEA_MINT: '2669GNmpdcRF2FmpjZmPtnpKD7L9tkFd92XSPEN85i45',
  SOLSEA_V1: '617jbWo616ggkDxvW1Le8pV38XLbVSyWY8ae6QUmGBAU',
  SOLSEA_V2: 'AARTcKUzLYaWmK7D1otgyAoFn5vQqBiTrxjwrvjvsVJa',
  CANDY_MACHINE_V3: 'Guard1JwRhJkVH6XZhzoYxeBVQe872VH6QggF4BWmS9g',
  CANDY_MACHINE_CORE_V3: 'CndyV3LdqHUfDLmE5naZjVN8rBZz4tqhdefbAnjHG3JR',
  CANDY_MACHINE_V2: 'cndy3Z4yapfJBmL3ShUp5exZKqR3z33thTzeNMm2gRZ',
  CANDY_MACHINE_V1: 'cndyAnrLdpjq1Ssp1z8xxDsB8dxe7u4HL5Nxi2K5WXZ',
  METAPLEX_AUCTION: 'auctxRXPeJoc4817jDhf4HbjnhEcr1cCXenosMhK5R8',
  TOKEN_METADATA: METADATA_PROGRAM,
  METAPLEX_MIGRATION: 'migrxZFChTqicHpNa1CAjPcF29Mui2JU2q4Ym7qQUTi',
  TOKEN: TOKEN_PROGRAM,
  TOKEN_VAULT: 'vau1zxA2LbssAUEF7Gpw91zMM1LvXrvpzJtmZ58rPsn',
  MAGIC_EDEN_V1: 'MEisE1HzehtrDpAAT8PnLHjpSSkRYakotTuJRPjTpo8',
  MAGIC_EDEN_V2: MAGIC_EDEN_V2,
  ENGLISH_AUCTION: 'EA15T2W45BJFm71XmB5VGcsiWGKZTNfnK6aCmE2Hb5eC',
  PHANTOM: PHANTOM,
  SYSTEM_PROGRAM: SYSTEM_PROGRAM,
  STAKE_PROGRAM: STAKE_PROGRAM,
  COINBASE_SHARED_WALLET: 'H8sMJSCQxfKiFTCfDR3DUMLPwcRbM61LGFJ8N4dK3WjS',
  MAGIC_EDEN_LAUNCHPAD: 'CMZYPASGWeTz7RNGHaRJfCq2XQ5pYK6nDvVQxzkH51zb',
  HEDGE: 'HedgeEohwU6RqokrvPU4Hb6XKPub8NuKbnPmY7FoMMtN',
  LAUNCH_MY_NFT: 'ArAA6CZC123yMJLUe4uisBEgvfuw2WEvex9iFmFCYiXv',
  GEM_BANK: 'bankHHdqMuaaST4qQk6mkzxGeKPHWmqdgor6Gs8r88m',
  GEM_FARM: 'farmL4xeBFVXJqtfxCzU9b28QACM7E2W2ctT6epAjvE',
  DEGODS_GEM_BANK: '6VJpeYFy87Wuv4KvwqD5gyFBTkohqZTqs6LgbCJ8tDBA',
  DEGODS_GEM_FARM: 'FQzYycoqRjmZTgCcTTAkzceH2Ju8nzNLa5d78K3yAhVW',
  BSL_GEM_BANK: 'BRwUybBWZJEin7HVeWBC7AueG1McDeY6v4esBwgryzKe',
  BSL_GEM_FARM: 'HUfVysibcL4u6EVoi4GsSDnV993tRX47ntoYH123q9AB',
  YAWWW: '5SKmrbAxnHV2sgqyDXkGrLrokZYtWWVEEk5Soed7VLVN',
  ATADIA_TOKEN_MINT_AUTHORITY: 'PassBQMFvYtDmvo7k5S2GVn6quj6RmnLnVfqEZebVMf',
  DIGITAL_EYES: '7t8zVJtPCFAqog1DcnB6Ku1AVKtWfHkCiPi1cAvcJyVF',
  HYPERSPACE: 'HYPERfwdTjyJ2SCaKHmpF2MtrXqWxrsotYDsTrshHWq8',
  TENSOR: 'TSWAPaqyCSx2KABk68Shruf4rp7CxcNi8hAsbdwmHbN',
  BIFROST_LAUNCHPAD: 'BFCMkgg9eFSv54HKJZFD5RMG8kNR5eMAEWnAtfRTPCjU',
  FOXY_STAKE: 'FoXpJL1exLBJgHVvdSHNKyKu2xX2uatctH9qp6dLmfpP',
  FOXY_SWAP: '8guzmt92HbM7yQ69UJg564hRRX6N4nCdxWE5L6ENrA8P',
  FOXY_RAFFLE: '9ehXDD5bnhSpFVRf99veikjgq8VajtRH7e3D9aVPLqYd',
  FOXY_TOKEN_MARKET: '8BYmYs3zsBhftNELJdiKsCN2WyCBbrTwXd6WG4AFPr6n',
  FOXY_MISSIONS: '6NcdQ5WTnrPoMLbP4kvpLYa4YSwKqkNHRRE8XVf5hmv9',
  FOXY_MARMALADE: 'BbGozDEfDKJbqxkSDjcDLWdQfxeZnnoTgD5VhNXV7epn',
  FOXY_COINFLIP: '72D3En8GQycjtunxf9mgyR8onzYdPqYFsKp4myUzhaRZ',
  FOXY_AUCTION: 'FFAUags5SYJEioBUkPtKuArccNzcNgUubhssCH2jSbeH',
  CITRUS: 'JCFRaPv7852ESRwJJGRy2mysUMydXZgVVhrMLmExvmVp',
  HADE_SWAP: 'hadeK9DLv9eA7ya5KCTqSvSvRZeJC3JgD5a9Y3CNbvu',
  ELIXIR: '2qGyiNeWyZxNdkvWHc2jT5qkCnYa1j1gDLSSUmyoWMh8',
  ELIXIR_LAUNCHPAD: '1NCHWmQ39XfQuRLgGihckNKXcm9LXbq5EnPVwPptLWy',
  ELIXIR_LAUNCHPAD_V2: 'PADWBS1VeV1LWsY6nciu6dRZjgSmUH2iPsUpHFVz7Wz',
  ELIXIR_V2: 'E1XRkj9fPF2NQUdoq41AHPqwMDHykYfn5PzBXAyDs7Be',
  CARDINAL_RENT: 'mgr99QFMYByTqGPWmNqunV7vBLmWWXdSrHUfV8Jf3JM',
  CARDINAL_STAKING: 'stkBL96RZkjY5ine4TvPihGqW8UHJfch2cokjAPzV8i',
  MAGIC_EDEN_GLOBAL_BID: 'mmm3XBJg5gk8XJxEKBvdgptZz6SgK4tXvn36sodowMc',
  BPF_UPGRADEABLE_LOADER: LOADER_V3,
  BPF_LOADER: LOADER_V2,
  SQUADS: 'SMPLecH534NA9acpos4G6x7uf3LWbCAwZQE9e8ZekMu',
  SHARKY_FI: 'SHARKobtfF1bHhxD2eqftjHBdVSCbKo9JtgK71FhELP',
  OPEN_CREATOR_PROTOCOL: 'ocp4vWUzA2z2XMYJ3QhM9vWdyoyoQwAFJhRdVTbvo9E',
  BUBBLEGUM: BUBBLEGUM_PROGRAM,
  CORAL_CUBE: '6U2LkBQ6Bqd1VFt7H76343vpSwS5Tb1rNyXSNnjkf9VL',
  JUPITER_V1: 'JUP6i4ozu5ydDCnLiMogSckDPpbtr7BJ4FtzYWkb5Rk',
  JUPITER_V2: JUPITER_V2,
  JUPITER_V3: 'JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph',
  JUPITER_V4: 'JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB',
  JUPITER_LIMIT_ORDER: 'jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu',
  SERUM_DEX_V3: '9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin',
  SERUM_DEX_V2: 'EUqojwWA2rd19FZrzeBncJsm38Jm1hEhE3zsmX3bRc2o',
  SERUM_DEX_V1: 'BJ3jrUzddfuSrZHXSCxMUUQsjKEyLmuuyZebkcaFp2fg',
  SERUM_DEX_ALT_V1: '4ckmDgGdxQoPDLUkDT3vHgSAkzA3QRdNq5ywwY4sUSJn',
  SERUM_SWAP: '22Y43yTVxuUkoRKdm9thyRhQ3SdgQS7c7kB6UNCiaczD',
  ALDRIN_AMM_V1: 'AMM55ShdkoGRB5jVYPjWziwk8m5MpwyDgsMWHaMSQWH6',
  ALDRIN_AMM_V2: 'CURVGoZn8zycx6FXwwevgBTB2gVvdbGTEpvMJDbgs2t4',
  RAYDIUM_LIQUIDITY_POOL_V2: 'RVKd61ztZW9GUwhRbbLoYVRE5Xf1B2tVscKqwZqXgEr',
  RAYDIUM_LIQUIDITY_POOL_V3: '27haf8L6oxUeXrHrgEgsexjSY5hbVUWEmvv9Nyxg8vQv',
  RAYDIUM_LIQUIDITY_POOL_V4: RAYDIUM_AMM_V4,
  SABER_STABLE_SWAP: 'SSwpkEEcbUqx4vtoEByFjSkhKdCT862DNVb52nZg1UZ',
  SABER_EXCHANGE: 'YAkoNb6HKmSxQN9L8hiBE5tPJRsniSSMzND1boHmZxe',
  MERCURIAL_STABLE_SWAP: 'MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky',
  ORCA_TOKEN_SWAP_V1: 'DjVE6JNiYqPL2QXyCUUh8rNjHrbz9hXHNYt99MQ59qw1',
  ORCA_TOKEN_SWAP_V2: '9W959DqEETiGZocYWCQPaJ6sBmUzgfxXfqGeTEdp3aQP',
  ORCA_WHIRLPOOLS: ORCA_WHIRLPOOLS,
  STEP_FINANCE_SWAP_PROGRAM: 'SSwpMgqNDsyV7mAgN9ady4bDVu5ySjmmXejXvy2vLt1',
  CYKURA: 'cysPXAjehMpVKUapzbMCCnpFxUFFryEWEaLgnb9NrR8',
  CREMA_FINANCE: '6MLxLqiXaaSUpkgMnWDTuejNZEz3kE7k2woyHGVFw319',
  LIFINITY: 'EewxydAPCCVuNEyrVN68PuSYdQ7wKn27V9Gjeoi8dy3S',
  LIFINITY_V2: '2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c',
  STEPN: 'Dooar9JkhdZ7J3LHN3A7YCuoGRUggXhQaG4kijfLGU2j',
  SENCHA_EXCHANGE: 'SCHAtsf8mbjyjiv4LkhLKutTf6JnZAbdJKFkXQNMFHZ',
  CROPPER: 'CTMAxxk34HjKWxQ3QLZK1HpaLXmBveao3ESePXbiyfzh',
  SAROS_AMM: 'SSwapUtytfBdBn1b9NUGG6foMVPtcWgpRU32HToDUZr',
  ZETA: 'ZETAx4NhMsyop6gVwH2E2RrAcDiuPs9ABkhLBEvBsb6',
} as const;

/** Devnet addresses of programs with another address on mainnet. */
export const DEVNET = {
  OPENBOOK: 'EoTcMgcDRTJVZDMZWBoU6rhYHZfkNTVEAfz3uUJRcYGj',
  RAYDIUM_CLMM: 'DRayAUgENGQBKVaX8owNhgzkEDyoHTGVEGHVJT1E9pfH',
  RAYDIUM_CPMM: 'DRaycpLY18LhpbydsBWbVJtxpNv9oXPgjRSfpF2bWpYb',
  RAYDIUM_LIQUIDITY_POOL_V4: 'DRaya7Kj3aMWQSy19kSjvmuwq9docCHofyP9kanQGaav',
} as const;
