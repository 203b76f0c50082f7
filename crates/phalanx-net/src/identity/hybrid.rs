//! The key exchange X25519MLKEM768 of TLS 1.3: ring's X25519 beside ML-KEM-768 (FIPS 203). An attacker who records a handshake must break both to
//! read what follows, so a quantum computer of later years is not enough.
//!
//! A client's share is ML-KEM's encapsulation key and X25519's public key. A server's is ML-KEM's ciphertext and X25519's public key. The
//! secret is ML-KEM's and X25519's, in this order (draft-ietf-tls-ecdhe-mlkem).

use ml_kem::kem::Decapsulate;
use ml_kem::{B32, Ciphertext, EncapsulateDeterministic, Encoded, EncodedSizeUser, KemCore, MlKem768};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// Bytes of ML-KEM-768's encapsulation key.
const KEY: usize = 1184;
/// Bytes of its ciphertext.
const CIPHERTEXT: usize = 1088;

type PrivateKey = <MlKem768 as KemCore>::DecapsulationKey;
type PublicKey = <MlKem768 as KemCore>::EncapsulationKey;

/// The group X25519MLKEM768.
#[derive(Debug)]
pub(super) struct X25519MlKem768;

/// A client's share that waits for the server's.
struct Begun {
    classical: Box<dyn ActiveKeyExchange>,
    private: PrivateKey,
    share: Vec<u8>,
}

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let classical = X25519.start()?;
        let (private, public) = MlKem768::generate_deterministic(&random()?, &random()?);
        let share = [&public.as_bytes()[..], classical.pub_key()].concat();
        Ok(Box::new(Begun { classical, private, share }))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, public) = split(share, KEY)?;
        let key = to_key(key)?;
        let classical = X25519.start_and_complete(public)?;
        let (ciphertext, secret) = key.encapsulate_deterministic(&random()?).map_err(|()| invalid())?;
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &classical.pub_key].concat(),
            secret: [&secret[..], classical.secret.secret_bytes()].concat().into(),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

impl ActiveKeyExchange for Begun {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, public) = split(share, CIPHERTEXT)?;
        let ciphertext = Ciphertext::<MlKem768>::try_from(ciphertext).map_err(|_| invalid())?;
        let classical = self.classical.complete(public)?;
        let secret = self.private.decapsulate(&ciphertext).map_err(|()| invalid())?;
        Ok([&secret[..], classical.secret_bytes()].concat().into())
    }

    /// X25519 alone, for a server that does not know the hybrid exchange.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.classical.group(), self.classical.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        self.classical.complete(share)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// ML-KEM's part of a share, and X25519's. X25519 checks the length of its own part.
fn split(share: &[u8], at: usize) -> Result<(&[u8], &[u8]), Error> {
    share.split_at_checked(at).ok_or_else(invalid)
}

/// Reads an encapsulation key. Its coefficients must be smaller than the modulus, so that they are encoded again as they were (FIPS 203,
/// section 7.2).
fn to_key(bytes: &[u8]) -> Result<PublicKey, Error> {
    let encoded = Encoded::<PublicKey>::try_from(bytes).map_err(|_| invalid())?;
    let key = PublicKey::from_bytes(&encoded);
    if key.as_bytes() == encoded { Ok(key) } else { Err(invalid()) }
}

fn invalid() -> Error {
    PeerMisbehaved::InvalidKeyShare.into()
}

fn random() -> Result<B32, Error> {
    let mut bytes = B32::default();
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::FailedToGetRandomBytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client() -> Box<dyn ActiveKeyExchange> {
        X25519MlKem768.start().expect("there are random bytes")
    }

    #[test]
    fn both_ends_have_the_same_secret() {
        let client = client();
        assert_eq!(client.pub_key().len(), KEY + 32);
        let server = X25519MlKem768.start_and_complete(client.pub_key()).expect("the share is good");
        assert_eq!(server.pub_key.len(), CIPHERTEXT + 32);
        let secret = client.complete(&server.pub_key).expect("the share is good");
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 64);
    }

    #[test]
    fn a_key_that_is_not_reduced_is_refused() {
        let mut share = client().pub_key().to_vec();
        share[..3].fill(0xff); // two coefficients of 4095, and the modulus is 3329
        assert!(X25519MlKem768.start_and_complete(&share).is_err());
    }

    proptest! {
        #[test]
        fn shares_of_any_bytes_are_refused_or_give_other_secrets(
            share in prop::collection::vec(any::<u8>(), 0..1300),
            at in any::<prop::sample::Index>(),
        ) {
            prop_assert!(X25519MlKem768.start_and_complete(&share).is_err());
            let client = client();
            let server = X25519MlKem768.start_and_complete(client.pub_key()).expect("the share is good");
            let mut altered = server.pub_key.clone();
            altered[at.index(CIPHERTEXT)] ^= 1;
            let secret = client.complete(&altered).expect("a wrong ciphertext gives a secret that nobody knows");
            prop_assert_ne!(secret.secret_bytes(), server.secret.secret_bytes());
        }
    }
}
