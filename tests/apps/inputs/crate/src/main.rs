//! Threads that build maps of strings, and pass them through channels to threads that drop them.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

fn table(seed: usize) -> HashMap<usize, String> {
    (0..20_000).map(|i| ((i * 7919 + seed) % 65_537, format!("{i}-").repeat(1 + i % 30))).collect()
}

fn digest(table: HashMap<usize, String>) -> u64 {
    let sorted: BTreeMap<_, _> = table.into_iter().collect();
    sorted.iter().fold(7, |sum, (key, text)| (sum * 31 + *key as u64 + text.len() as u64) % 1_000_000_007)
}

fn work(makers: usize) -> u64 {
    let (send, receive) = mpsc::sync_channel(4);
    for seed in 0..makers {
        let send = send.clone();
        thread::spawn(move || (0..6).for_each(|round| send.send(table(seed * 10 + round)).unwrap()));
    }
    drop(send);
    receive.into_iter().map(digest).sum()
}

fn main() {
    println!("{}", work(8));
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_and_two_makers() {
        assert_ne!(super::work(1), super::work(2));
    }

    #[test]
    fn a_table_has_all_keys() {
        assert_eq!(super::table(1).len(), 20_000);
    }
}
